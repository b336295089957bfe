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
)

// download is a response's body under the policies' Download.
//
// Over HTTP/1, net/http ends the request's context if the client has gone, and also if it has only
// shut down its side of the connection; then it still wants its answer. Only a write tells the one
// from the other: it fails, or it does not. The body of a client that may have gone is therefore
// not written only as its permits come, which can take long, but a few bytes of it from time to
// time without them. What is sent that way is paid for afterwards.
type download struct {
	w        http.ResponseWriter
	limiters []core.Limiter
	body     *ioreader.Writer // to w; ends with the request's context
	http1    bool
	ctx      context.Context //nolint:containedctx // the request's

	gone   context.Context //nolint:containedctx // ends when a write has failed; nil: the client was there at the last write
	failed context.CancelCauseFunc
	unsure *ioreader.Writer // to the download's probed; ends with gone

	mu       sync.Mutex // guards what follows, and w while a Write of a client that may have gone waits
	rest     []byte     // of that Write: not sent yet
	ahead    int        // how many bytes of it were sent before they were paid for
	timer    *time.Timer
	probedAt time.Time // when a few bytes were last sent
}

// A client that may have gone is sent this many bytes each time, without waiting for permits.
const (
	probeBytes = 16
	probeEvery = 500 * time.Millisecond
)

func newDownload(r *http.Request, w http.ResponseWriter, limiters []core.Limiter) *download {
	ctx := r.Context()
	return &download{
		w: w, limiters: limiters, ctx: ctx, body: throttled(ctx, w, limiters),
		http1: r.ProtoMajor == 1 && underServer(ctx),
	}
}

// throttled returns a writer to w under all of the limiters.
func throttled(ctx context.Context, w io.Writer, limiters []core.Limiter) *ioreader.Writer {
	body := ioreader.NewWriter(ctx, w, limiters[0])
	for _, l := range limiters[1:] {
		body = ioreader.NewWriter(ctx, body, l)
	}
	return body
}

// Write writes p as its permits come.
func (d *download) Write(p []byte) (n int, err error) {
	if d.gone == nil {
		n, err = d.body.Write(p)
		if err == nil || !d.mayHaveGone(err) {
			return n, err
		}
		d.gone, d.failed = context.WithCancelCause(context.WithoutCancel(d.ctx))
		d.unsure = throttled(d.gone, (*probed)(d), d.limiters)
	}
	m, err := d.writeUnsure(p[n:])
	return n + m, err
}

// mayHaveGone reports whether err is that of the context, which says no more than that.
func (d *download) mayHaveGone(err error) bool {
	ended := d.ctx.Err()
	return d.http1 && ended != nil && errors.Is(err, ended)
}

// writeUnsure is Write to a client that may have gone.
func (d *download) writeUnsure(p []byte) (int, error) {
	d.mu.Lock()
	d.rest = p
	d.timer = time.AfterFunc(probeEvery-time.Since(d.probedAt), d.probe)
	d.mu.Unlock()
	_, err := d.unsure.Write(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	sent := len(p) - len(d.rest)
	d.rest = nil
	if cause := context.Cause(d.gone); cause != nil {
		err = cause
	}
	return sent, err
}

// probe writes a few bytes, and finds out whether the client has gone.
func (d *download) probe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rest) == 0 || d.gone.Err() != nil {
		return
	}
	d.probedAt = time.Now()
	n, err := d.w.Write(d.rest[:min(probeBytes, len(d.rest))])
	d.rest = d.rest[n:]
	d.ahead += n
	if err == nil {
		err = http.NewResponseController(d.w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		d.failed(err)
		return
	}
	d.timer.Reset(probeEvery)
}

// probed is the ResponseWriter of a client that may have gone: it writes what has permits, but for
// the bytes that were sent before.
type probed download

func (p *probed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	paid := min(p.ahead, len(b))
	p.ahead -= paid
	if paid == len(b) {
		return paid, nil
	}
	n, err := p.w.Write(b[paid:])
	p.rest = p.rest[n:]
	return paid + n, err
}

// ReadFrom is for [io.Copy]: the kernel copies a file, as long as the client is there.
func (d *download) ReadFrom(src io.Reader) (n int64, err error) {
	if f := fileOf(src); f != nil && d.gone == nil {
		if n, err = f.copy(d); err == nil || !d.mayHaveGone(err) {
			return n, err
		}
	}
	m, err := io.Copy(struct{ io.Writer }{d}, struct{ io.Reader }{src})
	return n + m, err
}

// seeker is a file, which may be behind an io.LimitedReader.
type seeker struct {
	io.Seeker
	src     io.Reader
	limited *io.LimitedReader
}

func fileOf(src io.Reader) *seeker {
	f := &seeker{src: src}
	f.limited, _ = src.(*io.LimitedReader)
	if f.limited != nil {
		src = f.limited.R
	}
	f.Seeker, _ = src.(io.Seeker)
	if f.Seeker == nil {
		return nil
	}
	return f
}

// copy copies the file to the body, and leaves it where the copy ended: what was read of it and not
// written is to be read again.
func (f *seeker) copy(d *download) (int64, error) {
	start, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return io.Copy(struct{ io.Writer }{d}, struct{ io.Reader }{f.src}) // a pipe, say
	}
	var most int64
	if f.limited != nil {
		most = f.limited.N
	}
	n, err := d.body.ReadFrom(f.src)
	if err == nil {
		return n, nil
	}
	if _, err := f.Seek(start+n, io.SeekStart); err != nil {
		return n, err
	}
	if f.limited != nil {
		f.limited.N = most - n
	}
	return n, err
}
