package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
)

// dress returns what the handler is called with, as the policies that the frame asked want
// it: the ResponseWriter as it is, if they want nothing of it.
func (f *frame) dress(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	v, ctx := f.visit, r.Context()
	v.tell(w.Header())
	wants := v.wantsOf(f.number)
	if len(wants.upload) > 0 && r.Body != nil && r.Body != http.NoBody {
		r = copyOf(r)
		r.Body = &upload{r.Body, throttledBody(ctx, r.Body, f.request, wants.upload), wants.lifted}
	}
	downloads := len(wants.download) > 0 && r.Method != http.MethodHead
	if !downloads && !wants.status && !wants.fields {
		return w, r
	}
	f.response = &response{ResponseWriter: w}
	if wants.fields {
		f.response.visit = v
	}
	if downloads {
		body := io.Writer(w)
		for _, l := range wants.download {
			body = ioreader.NewWriter(ctx, body, partition.For(l, f.request))
		}
		f.response.body, f.response.lifted = body, wants.lifted
	}
	return f.response.writer(), r
}

// throttledBody returns the request's body under all of the limiters.
func throttledBody(ctx context.Context, body io.ReadCloser, r *http.Request, limiters []Limiter) io.ReadCloser {
	for _, l := range limiters {
		body = ioreader.NewReader(ctx, body, partition.For(l, r))
	}
	return body
}

// upload is a request's body: throttled, unless the request turns out to be exempt.
type upload struct {
	plain, throttled io.ReadCloser

	lifted *atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	if u.lifted.Load() {
		return u.plain.Read(p)
	}
	return u.throttled.Read(p)
}

// Close closes what is underneath too.
func (u *upload) Close() error { return u.throttled.Close() }

// copyOf returns a request that may be changed where r may not.
func copyOf(r *http.Request) *http.Request {
	other := new(http.Request)
	*other = *r
	return other
}

// wants are what a frame's policies want of the response and the body.
type wants struct {
	status           bool // to be known
	fields           bool // header fields to be taken off redirects
	upload, download []Limiter
	lifted           *atomic.Bool // see more
}

func (v *visit) wantsOf(frame int32) wants {
	v.lock()
	defer v.unlock()
	var w wants
	for a := range v.each {
		if a.frame != frame || a.stage == passed {
			continue
		}
		w.status = w.status || a.policy.Refund != nil && a.stage == held
		if l := a.policy.Upload; l != nil {
			w.upload = append(w.upload, l)
		}
		if l := a.policy.Download; l != nil {
			w.download = append(w.download, l)
		}
	}
	if v.terms.Headers != RetryAfterOnly && !v.fields && v.asks() > 0 {
		v.fields, w.fields = true, true
	}
	if len(w.upload)+len(w.download) > 0 {
		w.lifted = &v.rest().lifted
	}
	return w
}
