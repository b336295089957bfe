package main

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inProcess is a transport to a handler of this process. Nothing of it waits for a network, so that
// all instants in a synctest bubble are exact.
type inProcess struct{ handler http.HandlerFunc }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = out.CloseWithError(context.Cause(ctx)) })
	w := &answering{out: out, header: make(http.Header), start: make(chan int, 1)}
	go func() {
		defer stop()
		t.handler(w, r.WithContext(ctx))
		w.WriteHeader(http.StatusOK)
		_ = out.CloseWithError(context.Cause(ctx)) // nil: the answer has ended
	}()
	status := <-w.start
	return &http.Response{StatusCode: status, Header: w.header, Body: closing{body, cancel}}, nil
}

// answering is the ResponseWriter of inProcess.
type answering struct {
	out    *io.PipeWriter
	header http.Header
	once   sync.Once
	start  chan int // the status
}

func (a *answering) Header() http.Header    { return a.header }
func (a *answering) WriteHeader(status int) { a.once.Do(func() { a.start <- status }) }
func (a *answering) Flush()                 { a.WriteHeader(http.StatusOK) }

func (a *answering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(p)
}

// closing is a body whose Close ends the request.
type closing struct {
	*io.PipeReader

	cancel context.CancelFunc
}

func (c closing) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}
