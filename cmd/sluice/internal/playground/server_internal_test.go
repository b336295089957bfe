package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get asks a handler for a path.
func get(h http.Handler, host, path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// text returns the body of a response.
func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	return string(b)
}

// TestFiles serves each file of the page with its type.
func TestFiles(t *testing.T) {
	h := handler("")
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/index.html": "text/html; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/player.js": "text/javascript; charset=utf-8",
		"/style.css": "text/css; charset=utf-8", "/icon.svg": "image/svg+xml",
	} {
		r := get(h, "127.0.0.1:80", path)
		assert.Equal(t, http.StatusOK, r.StatusCode, path)
		assert.Equal(t, kind, r.Header.Get("Content-Type"), path)
		assert.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.NotEmpty(t, text(t, r), path)
	}
	for _, path := range []string{"/other", "/site/page.js"} {
		assert.Equal(t, http.StatusNotFound, get(h, "127.0.0.1", path).StatusCode, path)
	}
}

// post sends a body to a page.
func post(h http.Handler, path, body, origin string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Host = "127.0.0.1:7583"
	if origin != "" {
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestPlays: each page has a log of its own; a server that does not know a page asks for its log again, and other origins
// play nothing.
func TestPlays(t *testing.T) {
	h := handler("")
	const question = `{"limits":["1/s burst 1"],"key":"ip"}`
	assert.Equal(t, http.StatusGone, post(h, "/pages/a/play", question, "").StatusCode)
	for _, test := range []struct {
		page, log       string
		requests, empty any
	}{{"a", `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1`, 1.0, nil}, {"b", "", 0.0, true}} {
		require.Equal(t, http.StatusNoContent, post(h, "/pages/"+test.page+"/log", test.log, "").StatusCode)
		r := post(h, "/pages/"+test.page+"/play", question, "")
		require.Equal(t, http.StatusOK, r.StatusCode)
		var out map[string]any
		require.NoError(t, json.Unmarshal([]byte(text(t, r)), &out))
		assert.Equal(t, test.requests, out["requests"])
		assert.Equal(t, test.empty, out["empty"])
	}
	assert.Equal(t, http.StatusGone, post(h, "/pages/a/play", question, "").StatusCode, "b has sent another log")
	assert.Equal(t, http.StatusOK, post(h, "/pages/a/play", `{"arrivals":"constant:1/s,1s"}`, "").StatusCode, "that needs no log")
	assert.Equal(t, http.StatusForbidden, post(h, "/pages/b/play", question, "http://elsewhere.example").StatusCode)
	assert.Equal(t, http.StatusBadRequest, post(h, "/pages/b/play", "{", "").StatusCode)
}

// slowReader is a page that asks again before it reads the response.
type slowReader struct {
	*httptest.ResponseRecorder

	again func()
}

func (w *slowReader) Write(b []byte) (int, error) {
	w.again()
	return w.ResponseRecorder.Write(b)
}

// TestSlowReader: a page that does not read its response holds up no other.
func TestSlowReader(t *testing.T) {
	h := handler("")
	const question = `{"limits":["1/s"],"arrivals":"constant:1/s,5s"}`
	require.Equal(t, http.StatusNoContent, post(h, "/pages/a/log", "", "").StatusCode)
	asked := 0
	w := &slowReader{httptest.NewRecorder(), func() {
		asked++
		assert.Equal(t, http.StatusOK, post(h, "/pages/a/play", question, "").StatusCode)
	}}
	r := httptest.NewRequest(http.MethodPost, "/pages/a/play", strings.NewReader(question))
	r.Host = "localhost"
	h.ServeHTTP(w, r)
	assert.Positive(t, asked)
}

// TestOffered: the server plays the log that it offers, as it is now; without one, that is an error.
func TestOffered(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	h := handler(log)
	assert.Equal(t, http.StatusNotFound, post(h, "/pages/a/offered", "", "").StatusCode)
	require.NoError(t, os.WriteFile(log, []byte(`{"time":1}`), 0o600))
	assert.Equal(t, http.StatusNoContent, post(h, "/pages/a/offered", "", "").StatusCode)
	assert.Contains(t, text(t, post(h, "/pages/a/play", `{"limits":["1/s"]}`, "")), `"requests":1,`)
	assert.Equal(t, http.StatusNotFound, post(handler(""), "/pages/a/offered", "", "").StatusCode)
}

// TestHost: requests for a name that another site points to this address are rejected.
func TestHost(t *testing.T) {
	h := handler("")
	for _, host := range []string{"localhost:8000", "127.0.0.1:8000", "[::1]:8000", "192.0.2.1"} {
		assert.Equal(t, http.StatusOK, get(h, host, "/").StatusCode, host)
	}
	for _, host := range []string{"example.com", "localhost.example.com", "", "127.0.0.1.example.com:8000"} {
		assert.Equal(t, http.StatusForbidden, get(h, host, "/").StatusCode, host)
	}
}

// TestPageNamesNoOtherHost: the page loads nothing from elsewhere, and has no inline script.
func TestPageNamesNoOtherHost(t *testing.T) {
	h := handler("")
	for _, path := range []string{"/index.html", "/style.css", "/page.js", "/player.js", "/chart.js", "/state.js", "/format.js"} {
		body := text(t, get(h, "localhost", path))
		assert.NotContains(t, strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), "://", path)
		assert.NotContains(t, body, " style=", path)
		assert.NotContains(t, body, "<script>", path)
	}
}

// TestRun prints the URL, opens it, serves the page, and ends with its context.
func TestRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "a&b.log")
	require.NoError(t, os.WriteFile(log, []byte("one\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	visited := ""
	err := run(ctx, "127.0.0.1:0", "", log, &out, func(page string) {
		defer cancel()
		visited = page
		home, _, _ := strings.Cut(page, "#")
		r, err := http.Get(home)
		if assert.NoError(t, err) {
			b, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			assert.Contains(t, string(b), "<!DOCTYPE html>")
		}
	})
	assert.NoError(t, err)
	assert.Equal(t, visited+"\n", out.String())
	assert.Contains(t, visited, "/#log=a%26b.log&served=1")
}

// TestTaken: if the usual address is taken the page is elsewhere; an address that was asked for is an error then.
func TestTaken(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	taken := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	visited := ""
	require.NoError(t, run(ctx, taken, "127.0.0.1:0", "", io.Discard, func(page string) { visited = page; cancel() }))
	assert.Contains(t, visited, "http://127.0.0.1:")
	assert.NotContains(t, visited, taken)
	assert.Error(t, run(t.Context(), taken, "", "", io.Discard, func(string) { t.Error("it is open") }))
}

func TestPageOf(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80/", "0.0.0.0:80": "http://127.0.0.1:80/", "[::]:80": "http://127.0.0.1:80/", "[::1]:80": "http://[::1]:80/",
	} {
		a, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		assert.Equal(t, want, pageOf(a, ""))
	}
}

// TestRunFails on a log that is not there, and on an address that is none.
func TestRunFails(t *testing.T) {
	visit := func(string) { t.Error("it is open") }
	assert.ErrorIs(t, run(t.Context(), "127.0.0.1:0", "", filepath.Join(t.TempDir(), "no.log"), io.Discard, visit), os.ErrNotExist)
	assert.Error(t, run(t.Context(), "127.0.0.1:http:", "", "", io.Discard, visit))
}
