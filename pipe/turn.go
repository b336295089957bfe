package pipe

import (
	"context"
	"sync/atomic"
)

// turn lets one call at a time be on a side of the pipe. Unlike a mutex it may be held
// while the holder waits, the wait for it can be given up, and it is a channel that those
// who wait are blocked on, so a synctest bubble sees them idle. It promises no order.
//
// No waiter is forgotten: who waits has counted itself before it looks whether the turn
// is free, and who leaves frees the turn before it looks for waiters. A token in free is
// for any waiter; whoever takes it and finds the turn taken again waits on, and the new
// holder leaves another.
type turn struct {
	state atomic.Int32  // held, plus waiter for each who waits
	free  chan struct{} // has room for one token
}

const (
	held   = 1
	waiter = 2
)

func (t *turn) tryTake() bool { return t.state.Load()&held == 0 && t.state.CompareAndSwap(0, held) }

// take takes the turn, or returns ctx.Err().
func (t *turn) take(ctx context.Context) error {
	if t.tryTake() {
		return nil
	}
	return t.takeSlow(ctx)
}

func (t *turn) takeSlow(ctx context.Context) error {
	t.state.Add(waiter)
	for {
		if s := t.state.Load(); s&held == 0 {
			if t.state.CompareAndSwap(s, s-waiter+held) {
				return nil
			}
			continue
		}
		select {
		case <-t.free:
		case <-ctx.Done():
			t.state.Add(-waiter)
			return ctx.Err()
		}
	}
}

func (t *turn) leave() {
	if t.state.Add(-held) != 0 {
		select {
		case t.free <- struct{}{}:
		default:
		}
	}
}
