package arrivals

import (
	"net/http"
	"net/http/httptest"
)

// Get sends a request of a client to a handler and returns the answer.
func Get(h http.Handler, client, path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.RemoteAddr = client + ":1234"
	return serve(h, r)
}

// GetFor is Get through a proxy that says whom the request is for.
func GetFor(h http.Handler, proxy, client, path string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.RemoteAddr = proxy + ":1234"
	r.Header.Set("X-Forwarded-For", client)
	return serve(h, r)
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// Passes returns a function that sends a request of one client and reports whether it was served.
func Passes(h http.Handler) func() bool {
	return func() bool { return Get(h, "192.0.2.1", "/").StatusCode == http.StatusOK }
}

// OK is a handler that answers 200.
var OK = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
