package httplimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// waiting is the context that a limiter is asked with: the request's, which ends with
// MaxWait too. While no limiter waits on it, it costs nothing: no timer, and no context of
// package context.
type waiting struct {
	parent context.Context
	most   time.Duration   // 0: as long as the parent
	queued func(delta int) // told when the wait begins and ends; nil: nobody wants to know

	// What ends, made when a limiter asks for the Done or the Deadline.
	inner atomic.Pointer[inner]

	mu     sync.Mutex // guards what follows, and the making of inner; a leaf
	since  time.Time  // when somebody asked for Done first; zero: nobody has
	closed bool       // the limiter has answered
}

// inner is a context of package context's own: so it keeps all its promises.
type inner struct {
	context.Context

	cancel context.CancelFunc
}

// Done returns a channel that is closed when the context ends: somebody begins to wait.
func (w *waiting) Done() <-chan struct{} {
	in := w.resolve()
	w.mu.Lock()
	first := w.since.IsZero() && !w.closed
	if first {
		w.since = time.Now()
	}
	w.mu.Unlock()
	if first && w.queued != nil {
		w.queued(+1)
	}
	return in.Done()
}

// WatchDone is Done for those who only watch; see ending.Watch.
func (w *waiting) WatchDone() <-chan struct{} { return w.resolve().Done() }

// Deadline returns the end of MaxWait, or the request's deadline if that is earlier.
func (w *waiting) Deadline() (time.Time, bool) {
	if w.most == 0 {
		return w.parent.Deadline()
	}
	return w.resolve().Deadline()
}

// Err returns nil until the context ends.
func (w *waiting) Err() error {
	if in := w.inner.Load(); in != nil {
		return in.Err()
	}
	if w.parent.Err() != nil {
		return w.resolve().Err()
	}
	return nil
}

// Value returns the request's value for key.
func (w *waiting) Value(key any) any {
	if in := w.inner.Load(); in != nil {
		return in.Value(key) // there package context finds what it needs for Cause
	}
	return w.parent.Value(key)
}

// String says what it is to who prints it, instead of its fields, which others may change.
func (w *waiting) String() string { return "a limiter's context" }

func (w *waiting) resolve() *inner {
	if in := w.inner.Load(); in != nil {
		return in
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if in := w.inner.Load(); in != nil {
		return in
	}
	in := new(inner)
	if w.most > 0 {
		in.Context, in.cancel = context.WithTimeout(w.parent, w.most)
	} else {
		in.Context, in.cancel = context.WithCancel(w.parent)
	}
	if w.closed { // a limiter has kept it
		in.cancel()
	}
	w.inner.Store(in)
	return in
}

// over reports whether the time is over, which is not the request's own.
func (w *waiting) over() bool {
	in := w.inner.Load()
	return in != nil && w.most > 0 && in.Err() == context.DeadlineExceeded //nolint:errorlint // package context returns it as it is
}

// end ends it: the limiter has answered. It returns how long there has been a wait.
func (w *waiting) end() (waited time.Duration) {
	w.mu.Lock()
	w.closed = true
	since, in := w.since, w.inner.Load()
	w.mu.Unlock()
	if in != nil {
		in.cancel()
	}
	if since.IsZero() {
		return 0
	}
	if w.queued != nil {
		w.queued(-1)
	}
	return time.Since(since)
}
