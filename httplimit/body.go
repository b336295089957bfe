package httplimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// underServer reports whether one of net/http's servers serves the request.
func underServer(ctx context.Context) bool { return ctx.Value(http.ServerContextKey) != nil }

// mayEndEarly reports whether r's context also ends when its client has only closed its sending side, as in net/http
// over HTTP/1. Such a client still expects a response, and its request can still be read. Only a read or a write shows
// whether the client has disconnected.
func mayEndEarly(r *http.Request) bool { return r.ProtoMajor == 1 && underServer(r.Context()) }

// throttle is a limiter of a body's bytes, and the flow of their waits.
type throttle struct {
	core.Limiter

	flow *core.Flow // nil for the flow of the request's context
}

// throttle returns l for the body of r, with the policy's flow.
func (p *Policy) throttle(l Limiter, r *http.Request) throttle {
	t := throttle{Limiter: partition.For(l, r)}
	if p.Flow != nil {
		flow := p.Flow(r)
		t.flow = &flow
	}
	return t
}

// context returns ctx with the flow.
func (t *throttle) context(ctx context.Context) context.Context {
	if t.flow != nil {
		return core.WithFlow(ctx, *t.flow)
	}
	return ctx
}

// upload returns the body of r under the limiter.
func upload(r *http.Request, body io.Reader, t throttle) *ioreader.Reader {
	ctx := r.Context()
	if mayEndEarly(r) {
		ctx = context.WithoutCancel(ctx)
	}
	return ioreader.NewReader(t.context(ctx), body, t.Limiter)
}

// download is a response's body under the policies' Download.
type download struct {
	w        http.ResponseWriter
	limiters []throttle
	early    bool // whether ctx may end before the client has disconnected
	ctx      context.Context
	body     *ioreader.Writer // to w; ends with ctx
	probing  *probing         // nil until ctx has ended early
}

func newDownload(r *http.Request, w http.ResponseWriter, limiters []throttle) *download {
	ctx := r.Context()
	return &download{w: w, limiters: limiters, early: mayEndEarly(r), ctx: ctx, body: throttled(ctx, w, limiters)}
}

// throttled returns a writer to w under all of the limiters.
func throttled(ctx context.Context, w io.Writer, limiters []throttle) *ioreader.Writer {
	var body *ioreader.Writer
	for _, t := range limiters {
		body = ioreader.NewWriter(t.context(ctx), w, t.Limiter)
		w = body
	}
	return body
}

// Write writes p at the rate of the limiters.
func (d *download) Write(p []byte) (n int, err error) {
	if d.probing == nil {
		n, err = d.body.Write(p)
		if !d.isEarlyEnd(err) {
			return n, err
		}
		d.probing = newProbing(d)
	}
	m, err := d.probing.write(p[n:])
	return n + m, err
}

// isEarlyEnd reports whether err is the error of a context that may have ended early.
func (d *download) isEarlyEnd(err error) bool {
	ended := d.ctx.Err()
	return d.early && err != nil && ended != nil && errors.Is(err, ended)
}

// ReadFrom is for [io.Copy]. The kernel copies a file, unless the context has ended early.
func (d *download) ReadFrom(src io.Reader) (n int64, err error) {
	if rewind := rewinder(src); rewind != nil && d.probing == nil {
		if n, err = d.body.ReadFrom(src); !d.isEarlyEnd(err) {
			return n, err
		}
		if err := rewind(n); err != nil {
			return n, err
		}
	}
	m, err := io.Copy(struct{ io.Writer }{d}, struct{ io.Reader }{src})
	return n + m, err
}

// rewinder returns a function that moves src, a file or the start of one, to the n-th byte from its current position,
// so that bytes that were read but not written are read again. It returns nil for any other src.
func rewinder(src io.Reader) func(n int64) error {
	inner, limit := src, int64(0)
	limited, ok := src.(*io.LimitedReader)
	if ok {
		inner, limit = limited.R, limited.N
	}
	file, ok := inner.(io.Seeker)
	if !ok {
		return nil
	}
	here, err := file.Seek(0, io.SeekCurrent)
	if err != nil { // such as a pipe's
		return nil
	}
	return func(n int64) error {
		if limited != nil {
			limited.N = limit - n
		}
		_, err := file.Seek(here+n, io.SeekStart)
		return err
	}
}

// probing writes to a client that may have disconnected. Waiting for permits can take long, so it also sends a few
// bytes from time to time without waiting: that fails if the client has disconnected. Their permits are taken
// afterwards.
type probing struct {
	w      http.ResponseWriter
	gone   context.Context
	failed context.CancelCauseFunc
	body   *ioreader.Writer // to the probing's paid; ends with gone

	mu       sync.Mutex // guards the fields below, and w while a write waits
	rest     []byte     // of that write; not sent yet
	ahead    int        // how many of its bytes were sent before their permits were taken
	timer    *time.Timer
	probedAt time.Time // of the last probe
}

// Each probe sends this many bytes without waiting for permits.
const (
	probeBytes = 16
	probeEvery = 500 * time.Millisecond
)

func newProbing(d *download) *probing {
	pr := &probing{w: d.w}
	pr.gone, pr.failed = context.WithCancelCause(context.WithoutCancel(d.ctx))
	pr.body = throttled(pr.gone, (*paid)(pr), d.limiters)
	return pr
}

func (pr *probing) write(p []byte) (int, error) {
	pr.mu.Lock()
	pr.rest = p
	pr.timer = time.AfterFunc(probeEvery-time.Since(pr.probedAt), pr.probe)
	pr.mu.Unlock()
	_, err := pr.body.Write(p)
	pr.mu.Lock()
	defer pr.mu.Unlock()
	pr.timer.Stop()
	sent := len(p) - len(pr.rest)
	pr.rest = nil
	if cause := context.Cause(pr.gone); cause != nil {
		err = cause
	}
	return sent, err
}

// probe writes a few bytes to find out whether the client has disconnected.
func (pr *probing) probe() {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	if len(pr.rest) == 0 || pr.gone.Err() != nil {
		return
	}
	pr.probedAt = time.Now()
	n, err := pr.w.Write(pr.rest[:min(probeBytes, len(pr.rest))])
	pr.rest = pr.rest[n:]
	pr.ahead += n
	if err == nil {
		err = http.NewResponseController(pr.w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		pr.failed(err)
		return
	}
	pr.timer.Reset(probeEvery)
}

// paid writes bytes that have permits, except those that a probe has already sent.
type paid probing

func (p *paid) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := min(p.ahead, len(b))
	p.ahead -= before
	if before == len(b) {
		return before, nil
	}
	n, err := p.w.Write(b[before:])
	p.rest = p.rest[n:]
	return before + n, err
}
