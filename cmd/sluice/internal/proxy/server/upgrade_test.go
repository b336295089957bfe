package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// switcher returns a backend that switches to any protocol, and what returns the header of its latest request, in lower case.
func switcher(t *testing.T) (url string, last func() string) {
	t.Helper()
	var header atomic.Value
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		header.Store(fmt.Sprint(r.Header))
		upgraded("X-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-End: 1\r\n")(w, r)
	})
	return b.URL, func() string { return strings.ToLower(header.Load().(string)) }
}

// TestOnlyWebSocketIsTunneled: no other protocol is: over it a client could send requests that no limit sees.
func TestOnlyWebSocketIsTunneled(t *testing.T) {
	to, last := switcher(t)
	p := serves(t, nil, "to: "+to+`
policies:
  some: {limit: fixed 1000/1h, upload: 1MiB/s}
routes: {/limited: some, /exempt: none, /: []}
`)
	for _, path := range []string{"/limited", "/exempt", "/"} {
		for _, fields := range []string{
			"Connection: Upgrade\r\nUpgrade: h2c",
			"Connection: upgrade\r\nUpgrade: H2C",
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
			"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
			"Connection: Upgrade\r\nUpgrade: h2c, websocket",
			"Connection: Upgrade\r\nUpgrade: websocket, h2c",
			"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c",
			"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket",
			"Connection: Upgrade\r\nUpgrade: websocket/13",
			"Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/1.1",
			"Connection: Upgrade\r\nUpgrade: HTTP/2.0",
			"Connection: Upgrade\r\nUpgrade: echo",
			"Connection: close, Upgrade\r\nUpgrade: h\x80",
			"Connection: Upgrade\r\nUpgrade: ",
			"Upgrade: h2c",
			"Upgrade: websocket",
			"Connection: keep-alive\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
		} {
			a, _ := p.sends("GET " + path + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n\r\n")
			assert.Equal(t, http.StatusOK, a.StatusCode, "%s %q", path, fields)
			head := last()
			assert.NotContains(t, head, "upgrade", "%s %q", path, fields)
			assert.NotContains(t, head, "settings", "%s %q", path, fields)
		}
	}
}

// TestWebSocketIsTunneled: also what the client sends together with its request arrives, in order.
func TestWebSocketIsTunneled(t *testing.T) {
	to, last := switcher(t)
	p := serves(t, nil, "to: "+to+"\nglobal: {limit: concurrency 1, upload: 1MiB/s}\n")
	for _, token := range []string{"websocket", "WebSocket", "WEBSOCKET"} {
		c := dial(t, p.address)
		_, err := io.WriteString(c, "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "+token+
			"\r\nHTTP2-Settings: AAMAAABk\r\n\r\nearly ")
		require.NoError(t, err)
		in := bufio.NewReader(c)
		a, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		_ = a.Body.Close()
		require.Equal(t, http.StatusSwitchingProtocols, a.StatusCode, token)
		assert.NotContains(t, last(), "settings")
		for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate"} {
			assert.NotContains(t, a.Header, name)
		}
		assert.Equal(t, "1", a.Header.Get("X-End"))
		_, err = io.WriteString(c, "and late")
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		got, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Equal(t, "early and late", string(got))
		p.eventually(1)
	}
}
