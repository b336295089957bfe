package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStateOfAKey: the admin address says what a key has left.
func TestStateOfAKey(t *testing.T) {
	p := serves(t, hello, `
trusted: [127.0.0.0/8]
policies:
  api:  {key: ip, limits: [fixed 3/1h, concurrency 5], overrides: {192.0.2.9: fixed 7/1h, 192.0.2.8: unlimited}}
  user: {key: [header:X-Api-Key, path:1], limit: fixed 1/1h}
  all:  {limit: fixed 1000/1h}
routes: {/: [all, api], /user/: user}
`)
	for client, n := range map[string]int{"192.0.2.1": 4, "192.0.2.3": 1, "192.0.2.9": 2} {
		for range n {
			_, _ = p.asks("GET", "/", "X-Forwarded-For", client)
		}
	}
	_, _ = p.asks("GET", "/user/", "X-Api-Key", "secretkey")
	for _, test := range []struct {
		path string
		want []int
	}{
		{"/limits/api?key=192.0.2.1", []int{0, 5}},
		{"/limits/api?key=192.0.2.3", []int{2, 5}},
		{"/limits/api?key=192.0.2.7", []int{3, 5}}, // not seen yet
		{"/limits/api?key=192.0.2.9", []int{5}},    // an override
		{"/limits/api?key=192.0.2.8", nil},         // unlimited
		{"/limits/user?key=secretkey&key=user", []int{0}},
	} {
		_, text := p.asksAdmin("GET", test.path, "")
		var report keyReport
		require.NoError(t, json.Unmarshal([]byte(text), &report), text)
		var got []int
		for _, f := range report.State {
			if f.Available != nil {
				got = append(got, *f.Available)
			}
		}
		assert.Equal(t, test.want, got, test.path)
	}
}

// TestKeys: all spellings that a backend reads as one value are one key. A request whose value a backend may read in another way
// gets 400, but not from a policy in shadow.
func TestKeys(t *testing.T) {
	p := serves(t, hello, `
global: {limit: fixed 1000/1h}
policies:
  session: {key: "cookie:id", limit: fixed 1/1h}
  token:   {key: ["query:token", ip], limit: fixed 1/1h}
  login:   {key: "header:Authorization", limit: fixed 1/1h, overrides: {BEARER  other: fixed 2/1h}}
  header:  {key: ["header:X-Api-Key", ip], limit: fixed 1/1h}
  host:    {key: host, limit: fixed 1/1h}
  named:   {key: "query:user_id", limit: fixed 1/1h}
  bracket: {key: "query:filter[user]", limit: fixed 1/1h}
  shadow:  {key: "query:id", limit: fixed 1/1h, shadow: true}
routes: {/n: named, /b: bracket, /c: session, /q: token, /a: login, /k: header, /h: host, /s: shadow, /free/: none, /all/: []}
underscores: true
`)
	taken := 0
	for _, test := range []struct {
		path, fields string
		status       string
	}{
		{"/c", "Cookie: a=1; id=x; b=2", "200"},
		{"/c", "Cookie: id=x", "429"},
		{"/c", `Cookie: id="x"`, "429"},
		{"/c", "Cookie: id=%78", "429"},
		{"/c", "Cookie: id=y", "200"},
		{"/c", "Cookie: ID=x", "200"}, // another name: no value
		{"/c", "A: b", "429"},
		{"/c", "Cookie: id=%y", "200"},
		{"/c", "Cookie: id=%y", "429"},
		{"/c", "Cookie: id[]=x", "429"},
		{"/c", "Cookie: id=%62%zz", "200"},
		{"/c", "Cookie: id=b%zz", "429"},
		{"/c", "Cookie: id=a+b", "200"},
		{"/c", "Cookie: id=a%20b", "429"},
		{"/c", "Cookie: id=a%2Bb", "429"},
		{"/c", "Cookie: id=%2561", "200"}, // it is decoded once
		{"/c", "Cookie: id=a", "200"},
		{"/c", "Cookie: id=z; id=x", "400"},
		{"/c", "Cookie: id=z;a=1;id=", "400"},
		{"/c", `Cookie: id="\170"`, "400"},
		{"/c", "Cookie: id=r; i%64=x", "400"},
		{"/c", "Cookie: id=r, id=x", "400"},
		{"/c", "Cookie: a=r, id=x", "400"},
		{"/c", "Cookie: id=r; ID=x", "400"},
		{"/c", "Cookie: id=r; id[]=x", "400"},
		{"/q?token=x&b=1", "A: b", "200"},
		{"/q?b=1&tok%65n=x", "A: b", "429"},
		{"/q?token=y", "A: b", "200"},
		{"/q", "A: b", "200"},
		{"/q?token=", "A: b", "429"},
		{"/q?tok.en=r&token=w", "A: b", "200"},
		{"/q?token=a+b", "A: b", "200"},
		{"/q?token=a%20b", "A: b", "429"},
		{"/q?token=a%2562", "A: b", "200"},
		{"/q?token=ab", "A: b", "200"},
		{"/q?token[]=x", "A: b", "429"},
		{"/q?token=z&token=x", "A: b", "400"},
		{"/q?token=z;token=x", "A: b", "400"},
		{"/q?token=%zz", "A: b", "400"},
		{"/q?token[]=x&token=r", "A: b", "400"},
		{"/q?token=r&%20token=x", "A: b", "400"},
		{"/q?Token=r&token=x", "A: b", "400"},
		{"/a", "Authorization: Bearer tok", "200"},
		{"/a", "Authorization: bearer tok", "429"},
		{"/a", "Authorization: BEARER  tok", "429"},
		{"/a", "Authorization: Bearer\ttok", "429"},
		{"/a", "Authorization: Bearer TOK", "200"},
		{"/a", "Authorization: bearer other", "200"},
		{"/a", "Authorization: Bearer  other", "200"},
		{"/a", "Authorization: Bearer other", "429"},
		{"/a", "Authorization: Bearer tok x", "400"},
		{"/a", "Authorization: Bearer\u00a0tok", "400"},
		{"/a", "Authorization: Tok", "200"},
		{"/a", "Authorization: tok", "200"}, // no scheme
		{"/a", "Authorization: Bearer a.b-c_d==", "200"},
		{"/a", "Authorization: Basic dTpw", "200"},
		{"/a", "Authorization: basic  dTpw", "429"},
		{"/a", "Authorization: Basic dTpw=", "400"},
		{"/a", "Authorization: Basic dTp", "400"},
		{"/a", "Authorization: Basic dTpx!", "400"},
		{"/a", "Authorization: Basic dTpxeR==", "400"}, // two texts are decoded alike
		{"/a", "Authorization: Basic dTpw eDp5", "400"},
		{"/a", `Authorization: Digest username="a b",  uri="/"`, "200"},
		{"/a", `Authorization: digest username="a b", uri="/"`, "429"},
		{"/k", "X-Api-Key: a", "200"},
		{"/k", "X-Other: a\r\nX-Other: b", "200"},
		{"/k", "X-Api-Key: Bearer  tok", "200"},
		{"/k", "X-Api-Key: Bearer tok", "200"},
		{"/k", "X-Api-Key: a\r\nx-api-key: b", "400"},
		{"/k", "X-Api-Key: a\r\nX-Api-Key: a", "400"},
		{"/k", "X_Api_Key: b", "400"}, // programs behind CGI take it for X-Api-Key
		{"/k", "x_api-key: b", "400"},
		{"/k", "X.Api.Key: b", "429"}, // it is dropped
		{"/k", "X_Api_Kez: b", "429"},
		{"/free/", "X-Api-Key: a\r\nX-Api-Key: b", "200"},
		{"/all/", "X-Api-Key: a\r\nX-Api-Key: b", "200"},
		{"/h", "Host: example.com", "200"},
		{"/h", "Host: EXAMPLE.com", "429"},
		{"/h", "Host: example.com.", "429"},
		{"/h", "Host: example.com:81", "429"},
		{"/h", "Host: other.example", "200"},
		{"/s?id=a&id=b", "A: b", "200"},
		{"/s?id=a&id=b", "A: b", "200"},
		{"/n?user_id=x", "A: b", "200"},
		{"/n?user.id=x", "A: b", "429"},
		{"/n?user+id=x", "A: b", "429"},
		{"/n?+user_id=x", "A: b", "429"},
		{"/n?user%5Bid=x", "A: b", "429"},
		{"/n?user_id%5B0%5D=x", "A: b", "429"},
		{"/n?user.id%5Ba%5D%5Bb%5D=x", "A: b", "429"},
		{"/n?%5Buser_id%5D=x", "A: b", "429"},
		{"/n?user_id%5D=x", "A: b", "429"},
		{"/n?user_id%00x=x", "A: b", "429"},
		{"/n", "A: b", "200"},
		{"/n?=1&user=2&userid=3&user_id_=4&user-id=5&xuser_id=6&user_idx%5B0%5D=7&%5Bx%5Duser_id=8", "A: b", "429"}, // none has the name
		{"/n?User_ID=9", "A: b", "429"},
		{"/n?User.ID=r&user_id=y", "A: b", "400"},
		{"/b?filter%5Buser%5D=x", "A: b", "200"},
		{"/b?filter%5Buser%5D=x", "A: b", "429"},
		{"/b?filter%5Bother%5D=x", "A: b", "200"}, // no value
		{"/b", "A: b", "429"},
	} {
		if !strings.HasPrefix(test.fields, "Host:") {
			test.fields += "\r\nHost: h"
		}
		got := statusIn(p.raw("GET "+test.path+" HTTP/1.1\r\nConnection: close\r\n"+test.fields+"\r\n\r\n", false))
		assert.Equal(t, test.status, got, "%v", test)
		if got != "429" && test.path != "/free/" {
			taken++
		}
	}
	assert.Equal(t, 1000-taken, p.left(0), "400 is under the global policy")
	assert.Equal(t, []int{0}, p.leftOf("login", "bEARER tok"))
}
