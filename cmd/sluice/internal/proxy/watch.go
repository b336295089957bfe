package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errSilent is the error of a backend that takes nothing and sends nothing.
var errSilent = errors.New("the backend does not answer")

// watch ends a request whose backend is silent for too long. It does not count while the client is waited for.
type watch struct {
	limit  time.Duration
	ctx    context.Context //nolint:containedctx // the request's
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu       sync.Mutex
	answered bool // the request's body does not move the timer any more
}

// silent sends a request, and lets the other side be silent for as long as limit.
func silent(r *http.Request, limit time.Duration, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if limit == 0 {
		return send(r)
	}
	w := &watch{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(r.Context())
	w.timer = time.AfterFunc(limit, func() { w.cancel(errSilent) })
	r = r.WithContext(w.ctx) //nolint:contextcheck // it is that of the request, with an end
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &watchedUpload{r.Body, w}
	}
	answer, err := send(r)
	w.mu.Lock()
	w.answered = true
	w.timer.Stop()
	w.mu.Unlock()
	switch {
	case err != nil:
		err = w.why(err)
		w.cancel(nil)
		return nil, err
	case answer.StatusCode == http.StatusSwitchingProtocols, answer.Body == http.NoBody:
		// What is upgraded may be silent; it ends with the request, whose context is the outer one.
	default:
		answer.Body = &watchedAnswer{answer.Body, w}
	}
	return answer, nil
}

// why returns err, or that the backend was silent if that is the cause. A connection that was not made is another matter.
func (w *watch) why(err error) error {
	if _, dialing := errors.AsType[*dialError](err); !dialing && errors.Is(context.Cause(w.ctx), errSilent) {
		return errSilent
	}
	return err
}

// watchedUpload is a request's body.
type watchedUpload struct {
	io.ReadCloser

	w *watch
}

func (u *watchedUpload) Read(p []byte) (int, error) {
	u.w.clientIs(true)
	defer u.w.clientIs(false)
	return u.ReadCloser.Read(p)
}

// clientIs notes whether it is the client that is waited for.
func (w *watch) clientIs(waitedFor bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.answered:
	case waitedFor:
		w.timer.Stop()
	default:
		w.timer.Reset(w.limit)
	}
}

// watchedAnswer is the body of an answer.
type watchedAnswer struct {
	io.ReadCloser

	w *watch
}

func (a *watchedAnswer) Read(p []byte) (int, error) {
	a.w.timer.Reset(a.w.limit)
	n, err := a.ReadCloser.Read(p)
	a.w.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.w.why(err)
	}
	return n, err
}

func (a *watchedAnswer) Close() error {
	defer a.w.cancel(nil)
	return a.ReadCloser.Close()
}
