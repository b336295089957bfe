package server

import (
	"errors"
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/upstream"
)

// clientError is the error of a request whose body cannot be read: the client's fault.
type clientError struct{ error }

func (e *clientError) Unwrap() error { return e.error }

// errStalled is the error of a body that does not come.
var errStalled = errors.New("timed out reading the request body")

// statusOf returns the status that tells a client of an error of its request's way to a backend and back.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errStalled):
		return http.StatusRequestTimeout
	case isA[*http.MaxBytesError](err):
		return http.StatusRequestEntityTooLarge
	case isA[*clientError](err):
		return http.StatusBadRequest
	case upstream.IsExhausted(err):
		return http.StatusServiceUnavailable
	case upstream.IsTimeout(err):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// answer responds to a request for which no response of a backend came.
func answer(w http.ResponseWriter, r *http.Request, code int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if isGRPC(r) {
		answerGRPC(w, grpcCode(code), http.StatusText(code))
		return
	}
	closeBehind(w, r)
	http.Error(w, http.StatusText(code), code)
}

// closeBehind has the connection closed after the response to a request whose body no one reads: net/http cannot continue
// after one that got a response before its body came.
func closeBehind(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}
