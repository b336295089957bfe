package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// How long a backend may be silent is kept in three places: the connection ends a write that it does not take, the
// transport waits for its header, from the end of the request on, and then its body is watched here.

// errSilent is the error of a backend that takes nothing and sends nothing.
var errSilent = errors.New("the backend is silent")

// isSilence reports whether err comes of a backend that took the connection, and was then silent.
func isSilence(err error) bool {
	if _, dialing := errors.AsType[*dialError](err); dialing {
		return false
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// watched has the body of an answer end if nothing of it comes for limit.
func watched(answer *http.Response, limit time.Duration) {
	if limit == 0 || answer.Body == http.NoBody || answer.StatusCode == http.StatusSwitchingProtocols {
		return // what is upgraded may be silent
	}
	answer.Body = &watchedBody{ReadCloser: answer.Body, limit: limit}
}

// watchedBody is the body of an answer. The timer runs only while a Read waits: clients may take their time.
type watchedBody struct {
	io.ReadCloser

	limit  time.Duration
	timer  *time.Timer // nil: nothing was read yet
	silent atomic.Bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.limit, b.end)
	} else {
		b.timer.Reset(b.limit)
	}
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && b.silent.Load() {
		err = errSilent
	}
	return n, err
}

// end ends a Read.
func (b *watchedBody) end() {
	b.silent.Store(true)
	_ = b.ReadCloser.Close() // the Read tells of it
}
