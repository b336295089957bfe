package redislimit

import "context"

// stay blocks until o is decided, and reports whether it is: if ctx ends first, nobody
// is there for o any more. ctx is asked for its Done, which is done, once o is in the queue:
// only then does it wait for permits. That runs code of whoever made ctx.
func (e *engine) stay(ctx context.Context, o *op) (decided bool) {
	panicked := true
	defer func() { //nolint:contextcheck // what is asked for many does not end with one's ctx
		if panicked && !e.leave(o) {
			for range o.done { // to its end
			}
			if o.outcome == granted {
				e.forget(o)
			}
		}
	}()
	for waits := true; waits; {
		select {
		case _, waits = <-o.done:
			if waits {
				ctx.Done()
			}
		case <-o.leaves:
			panicked = false
			if e.leave(o) { //nolint:contextcheck // as above
				return false
			}
			for range o.done { // to its end
			}
			return true
		}
	}
	panicked = false
	return true
}
