package playground

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// get asks a handler for a path.
func get(h http.Handler, host, path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = host
	r.Header.Set("Accept-Encoding", "gzip")
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

// TestFiles serves each file of the page with its type, and the engine compressed.
func TestFiles(t *testing.T) {
	h := handler("")
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/index.html": "text/html; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/player.js": "text/javascript; charset=utf-8",
		"/worker.js": "text/javascript; charset=utf-8", "/wasm_exec.js": "text/javascript; charset=utf-8", "/style.css": "text/css; charset=utf-8",
		"/icon.svg": "image/svg+xml", "/sluice.wasm": "application/wasm",
	} {
		r := get(h, "127.0.0.1:80", path)
		assert.Equal(t, http.StatusOK, r.StatusCode, path)
		assert.Equal(t, kind, r.Header.Get("Content-Type"), path)
		assert.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.NotEmpty(t, text(t, r), path)
	}
	r := get(h, "localhost", "/sluice.wasm")
	assert.Equal(t, "gzip", r.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(r.Body)
	require.NoError(t, err)
	wasm, err := io.ReadAll(z)
	require.NoError(t, err)
	assert.Equal(t, "\x00asm", string(wasm[:4]))
	assert.Less(t, len(wasm), 6<<20)
	for _, path := range []string{"/sluice.wasm.gz", "/other", "/site/page.js", "/log"} {
		assert.Equal(t, http.StatusNotFound, get(h, "127.0.0.1", path).StatusCode, path)
	}
}

// TestHost: a name that somebody lets lead to this address is not answered.
func TestHost(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.WriteFile(log, []byte("one\n"), 0o600))
	h := handler(log)
	for _, host := range []string{"localhost:8000", "127.0.0.1:8000", "[::1]:8000", "192.0.2.1"} {
		assert.Equal(t, "one\n", text(t, get(h, host, "/log")), host)
	}
	for _, host := range []string{"example.com", "localhost.example.com", "", "127.0.0.1.example.com:8000"} {
		for _, path := range []string{"/", "/log"} {
			assert.Equal(t, http.StatusForbidden, get(h, host, path).StatusCode, host+path)
		}
	}
	require.NoError(t, os.Remove(log))
	assert.Equal(t, http.StatusNotFound, get(h, "localhost", "/log").StatusCode)
}

// TestPageNamesNoOtherHost: nothing of the page is from elsewhere, and no script stands in it.
func TestPageNamesNoOtherHost(t *testing.T) {
	h := handler("")
	for _, path := range []string{"/index.html", "/style.css", "/page.js", "/player.js", "/chart.js", "/state.js", "/format.js", "/worker.js"} {
		body := text(t, get(h, "localhost", path))
		assert.NotContains(t, strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), "://", path)
		assert.NotContains(t, body, " style=", path)
		assert.NotContains(t, body, "<script>", path)
	}
}
