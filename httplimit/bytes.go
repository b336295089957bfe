package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// underServer reports whether one of net/http's servers serves the request.
func underServer(ctx context.Context) bool { return ctx.Value(http.ServerContextKey) != nil }

// streamContext returns the context that ends the throttling of r's body. Over HTTP/1, net/http ends
// the request's context also when the client shuts down its side of the connection. What it has
// sent is read all the same; a failing read shows that it is gone.
func streamContext(r *http.Request) context.Context {
	if r.ProtoMajor == 1 && underServer(r.Context()) {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}

// throttledUpload puts the body of the next handler's request under the policies' Upload, and returns it.
func (adm *admission) throttledUpload() (uploads []*ioreader.Reader) {
	if !settingsOf(adm.policies.Snapshot).uploads || !hasBody(adm.original) {
		return nil
	}
	for i := range adm.policies.Decisions {
		if p := adm.policy(i); p.Upload != nil && !p.Shadow {
			body := ioreader.NewReader(streamContext(adm.original), adm.request.Body, partition.For(p.Upload, adm.original))
			adm.request.Body = body
			uploads = append(uploads, body)
		}
	}
	return uploads
}

// throttledDownload returns w under the policies' Download; nil if there is none.
func (adm *admission) throttledDownload(w http.ResponseWriter) *download {
	if !settingsOf(adm.policies.Snapshot).downloads || adm.original.Method == http.MethodHead {
		return nil
	}
	var limiters []core.Limiter
	for i := range adm.policies.Decisions {
		if p := adm.policy(i); p.Download != nil && !p.Shadow {
			limiters = append(limiters, partition.For(p.Download, adm.original))
		}
	}
	if limiters == nil {
		return nil
	}
	return newDownload(adm.original, w, limiters)
}

// What is read of a rejected request's body, so that its connection can be used again: a client
// that sends no more is answered after this time. net/http reads as much by itself, but without
// end.
const (
	rejectedBytes = 256 << 10
	rejectedTime  = 5 * time.Millisecond
)

// readToEnd reads the body of a rejected HTTP/1 request, if all of it is at hand, and reports
// whether there is nothing left to read. Else the answer has to say that the connection is closed:
// before other answers net/http waits for the body, and the client may be waiting for the answer.
func readToEnd(w http.ResponseWriter, r *http.Request) bool {
	ctx := r.Context()
	if r.ProtoMajor != 1 || r.ContentLength == 0 || !underServer(ctx) {
		return true
	}
	if r.ContentLength > rejectedBytes || r.Header.Get("Expect") != "" {
		return false
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(rejectedTime)) != nil {
		return false
	}
	n, err := io.CopyN(io.Discard, r.Body, rejectedBytes+1)
	if c.SetReadDeadline(readDeadline(ctx)) != nil {
		return false
	}
	// A body that somebody has wrapped may end before the request's does.
	return errors.Is(err, io.EOF) && (r.ContentLength < 0 || r.ContentLength == n)
}

// readDeadline returns when the server has to have read a request; the zero Time: there is no end.
func readDeadline(ctx context.Context) (t time.Time) {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		t = time.Now().Add(s.ReadTimeout)
	}
	return t
}
