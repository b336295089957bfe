package policy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// waiting is the context of a limiter's Acquire: the request's, which ends with MaxWait too. What
// ends it is made when the limiter asks for it, as most requests get their permits without.
type waiting struct {
	context.Context // the request's

	most   time.Duration   // MaxWait; 0: as long as the request
	queued func(delta int) // nil: nobody wants to know

	mu     sync.Mutex // guards what follows; a leaf
	inner  context.Context
	cancel context.CancelFunc
	since  time.Time // when Done was first called: the wait begins
	failed any       // what queued panicked with then
	closed bool      // the limiter has returned
}

// Done returns a channel that is closed when the context ends: the request begins to wait.
func (w *waiting) Done() <-chan struct{} {
	inner := w.begin()
	w.mu.Lock()
	first := w.since.IsZero() && !w.closed
	if first {
		w.since = time.Now()
	}
	w.mu.Unlock()
	if first && w.queued != nil {
		w.notify()
	}
	return inner.Done()
}

// notify calls queued as the wait begins. If that panics, end does so instead of Done, whose
// caller, the limiter, may have the request in its queue; the wait is over.
func (w *waiting) notify() {
	defer func() {
		if failed := recover(); failed != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.failed = failed
			w.cancel()
		}
	}()
	w.queued(+1)
}

// Deadline returns the end of MaxWait, or the request's deadline if that is earlier.
func (w *waiting) Deadline() (time.Time, bool) {
	if w.most == 0 {
		return w.Context.Deadline()
	}
	return w.begin().Deadline()
}

// Err returns nil until the context ends.
func (w *waiting) Err() error { return w.current().Err() }

// Value returns the request's value for key. Once there is an inner context, package context finds
// that by a key of its own.
func (w *waiting) Value(key any) any { return w.current().Value(key) }

// String keeps whoever prints the context from reading its fields while they change.
func (w *waiting) String() string { return "a limiter's context" }

// current returns the context that is in force.
func (w *waiting) current() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inner == nil {
		return w.Context
	}
	return w.inner
}

// begin returns the inner context, which begins now unless it has begun.
func (w *waiting) begin() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inner != nil {
		return w.inner
	}
	if w.most > 0 {
		w.inner, w.cancel = context.WithTimeout(w.Context, w.most)
	} else {
		w.inner, w.cancel = context.WithCancel(w.Context)
	}
	if w.closed { // the limiter has kept it
		w.cancel()
	}
	return w.inner
}

// over reports whether the time is over, and not the request's own.
func (w *waiting) over() bool {
	return w.most > 0 && w.Context.Err() == nil && errors.Is(w.current().Err(), context.DeadlineExceeded)
}

// end ends the context, and returns how long there was a wait.
func (w *waiting) end() time.Duration {
	w.mu.Lock()
	w.closed = true
	since, cancel, failed := w.since, w.cancel, w.failed
	w.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if since.IsZero() {
		return 0
	}
	if w.queued != nil {
		w.queued(-1)
	}
	if failed != nil {
		panic(failed)
	}
	return time.Since(since)
}
