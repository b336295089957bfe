package httplimit

import (
	"net/http"
	"reflect"
)

// An answer before the request's body has come needs full duplex of net/http, over HTTP/1. But if the body ends only
// after the handler, its end starts a read of the connection that meets that of the next request, and the server panics
// (golang.org/issue/68560); and what is left of the body may be taken for a request. So either the connection is closed,
// or the handler does not return before it has got rid of the body.

// drainable is more than the longest body that is got rid of: net/http gives up a longer one.
const drainable = 256 << 10

// early has the answer sent before the body has come, and announces that the connection is closed then.
func (no *Rejection) early(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.ProtoMajor != 1 || r.ContentLength == 0 || h.Get("Connection") == "close" ||
		http.NewResponseController(w).EnableFullDuplex() != nil { // not known: net/http reads the body first
		return
	}
	h.Set("Connection", "close")
	no.closes = true
}

// keep takes back that the connection is closed, if the body can be got rid of. The answer must say its length then, or
// its end would come after the body's.
func (no *Rejection) keep(w http.ResponseWriter, r *http.Request) bool {
	if !no.closes || r.ContentLength < 0 || r.ContentLength >= drainable || !unbuffered(w) || !original(r) {
		return false
	}
	no.closes = false
	w.Header().Del("Connection")
	return true
}

// rid sends the answer and gets rid of the body.
func rid(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	if c.Flush() == nil && r.Body.Close() == nil {
		return
	}
	// The client is gone, or its time is up: what still comes is not to be taken for a request.
	if conn, _, err := c.Hijack(); err == nil {
		_ = conn.Close()
	}
}

// unbuffered reports whether w is net/http's own, or this package's around it. Others may hold the answer back, and to
// flush what is underneath would send another one.
func unbuffered(w http.ResponseWriter) bool {
	for {
		ours, ok := w.(interface {
			Unwrap() http.ResponseWriter
			throttles() bool
		})
		if !ok {
			break
		}
		w = ours.Unwrap()
	}
	_, ok := w.(interface{ EnableFullDuplex() error })
	return ok
}

// original reports whether the body is as net/http has made it. The Close of another need not close that one.
func original(r *http.Request) bool {
	t := reflect.TypeOf(r.Body)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "net/http" && t.Elem().Name() == "body"
}
