package pipe

import (
	"context"
	"sync/atomic"
)

// throttle is the context that a limiter is asked with. It ends with the caller's, when
// the pipe is closed, and when the deadline of a conn passes; but it shows no deadline of
// a conn, lest a rate limiter reject at once who would wait till then.
//
// That takes a second context, with a cancel that Close finds. It costs nothing unless the
// call has to wait: only who waits asks for Done.
type throttle struct {
	context.Context // the caller's

	p      *pipe
	s      *side
	inside atomic.Pointer[cancellable] // nil: nobody has asked for Done
}

type cancellable struct {
	context.Context

	cancel context.CancelFunc
}

// Done is asked for by who is about to wait. What a waiting reader has got so far is
// handed over first.
func (t *throttle) Done() <-chan struct{} {
	t.p.flush()
	c := t.inside.Load()
	if c == nil {
		ctx, cancel := context.WithCancel(t.Context)
		c = &cancellable{ctx, cancel}
		if t.inside.CompareAndSwap(nil, c) {
			t.s.throttled.Store(c)
		} else {
			cancel()
			c = t.inside.Load()
		}
	}
	if t.s.stopped() { // whoever stops a side looks for who is throttled after that
		c.cancel()
	}
	return c.Context.Done()
}

func (t *throttle) Err() error {
	if c := t.inside.Load(); c != nil {
		return c.Err()
	}
	return t.Context.Err()
}

func (t *throttle) Value(key any) any {
	if c := t.inside.Load(); c != nil {
		return c.Context.Value(key) // finds the inner context, so that no goroutine is needed to pass its end on
	}
	return t.Context.Value(key)
}

// end frees what a wait took. A throttle that was waited on is not used again: somebody
// may have kept it.
func (t *throttle) end() {
	c := t.inside.Load()
	if c == nil {
		t.Context = background
		t.s.throttle = t
		return
	}
	t.s.throttled.Store(nil)
	c.cancel()
}
