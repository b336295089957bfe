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

// mayEndEarly reports whether r's context ends also when its client has only shut down its side of the
// connection, as net/http's over HTTP/1 does. What the client has sent is read all the same, and it still
// wants its answer: only a read or a write shows whether it has gone.
func mayEndEarly(r *http.Request) bool { return r.ProtoMajor == 1 && underServer(r.Context()) }

// throttle is a limiter of a body's bytes, and the flow by which they wait.
type throttle struct {
	core.Limiter

	flow *core.Flow // nil: the flow of the request's context
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
	early    bool             // ctx may end before the client has gone
	ctx      context.Context  //nolint:containedctx // the request's
	body     *ioreader.Writer // to w; ends with ctx
	unsure   *unsure          // nil: the client was there at the last write
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

// Write writes p as its permits come.
func (d *download) Write(p []byte) (n int, err error) {
	if d.unsure == nil {
		n, err = d.body.Write(p)
		if !d.mayHaveGone(err) {
			return n, err
		}
		d.unsure = newUnsure(d)
	}
	m, err := d.unsure.write(p[n:])
	return n + m, err
}

// mayHaveGone reports whether err is that of the context, which says no more than that.
func (d *download) mayHaveGone(err error) bool {
	ended := d.ctx.Err()
	return d.early && err != nil && ended != nil && errors.Is(err, ended)
}

// ReadFrom is for [io.Copy]: the kernel copies a file, as long as the client is there.
func (d *download) ReadFrom(src io.Reader) (n int64, err error) {
	if rewind := rewinder(src); rewind != nil && d.unsure == nil {
		if n, err = d.body.ReadFrom(src); !d.mayHaveGone(err) {
			return n, err
		}
		if err := rewind(n); err != nil {
			return n, err
		}
	}
	m, err := io.Copy(struct{ io.Writer }{d}, struct{ io.Reader }{src})
	return n + m, err
}

// rewinder returns a function that goes to the n-th byte from here of src, a file or its beginning: what was read of
// it and not written is to be read again. nil: src is something else.
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
	if err != nil { // a pipe's, say
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

// unsure writes to a client that may have gone. Its body is not written only as its permits come, which
// can take long, but a few bytes of it from time to time without them: that fails if the client has gone.
// What is sent that way is paid for afterwards.
type unsure struct {
	w      http.ResponseWriter
	gone   context.Context //nolint:containedctx // ends when a write has failed
	failed context.CancelCauseFunc
	body   *ioreader.Writer // to the unsure's paid; ends with gone

	mu       sync.Mutex // guards what follows, and w while a write waits
	rest     []byte     // of that write: not sent yet
	ahead    int        // how many bytes of it were sent before they were paid for
	timer    *time.Timer
	probedAt time.Time // when a few bytes were last sent
}

// A client that may have gone is sent this many bytes each time, without waiting for permits.
const (
	probeBytes = 16
	probeEvery = 500 * time.Millisecond
)

func newUnsure(d *download) *unsure {
	u := &unsure{w: d.w}
	u.gone, u.failed = context.WithCancelCause(context.WithoutCancel(d.ctx))
	u.body = throttled(u.gone, (*paid)(u), d.limiters)
	return u
}

func (u *unsure) write(p []byte) (int, error) {
	u.mu.Lock()
	u.rest = p
	u.timer = time.AfterFunc(probeEvery-time.Since(u.probedAt), u.probe)
	u.mu.Unlock()
	_, err := u.body.Write(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.timer.Stop()
	sent := len(p) - len(u.rest)
	u.rest = nil
	if cause := context.Cause(u.gone); cause != nil {
		err = cause
	}
	return sent, err
}

// probe writes a few bytes, and finds out whether the client has gone.
func (u *unsure) probe() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.rest) == 0 || u.gone.Err() != nil {
		return
	}
	u.probedAt = time.Now()
	n, err := u.w.Write(u.rest[:min(probeBytes, len(u.rest))])
	u.rest = u.rest[n:]
	u.ahead += n
	if err == nil {
		err = http.NewResponseController(u.w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		u.failed(err)
		return
	}
	u.timer.Reset(probeEvery)
}

// paid is an unsure's ResponseWriter for what has permits: it writes all but the bytes that were sent before.
type paid unsure

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
