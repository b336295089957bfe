package arrivals

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Get sends a request of a client to a handler and returns the status and the header of the response.
func Get(t *testing.T, h http.Handler, client, path string) (status int, header http.Header) {
	t.Helper()
	return serve(t, h, client, path, nil)
}

// GetFor is like Get, but for a client that names another client in a header, as proxies do.
func GetFor(t *testing.T, h http.Handler, client, other, path string) (status int, header http.Header) {
	t.Helper()
	return serve(t, h, client, path, http.Header{"X-Forwarded-For": {other}})
}

func serve(t *testing.T, h http.Handler, client, path string, header http.Header) (int, http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.RemoteAddr = client + ":1234"
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header()
}

// Passes returns a function that sends a request of one client and reports whether it was served.
func Passes(t *testing.T, h http.Handler) func() bool {
	t.Helper()
	return func() bool {
		status, _ := Get(t, h, "192.0.2.1", "/")
		return status == http.StatusOK
	}
}

// OK is a handler that responds with 200.
var OK = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
