// Package turn lets one call at a time use one side of a stream. It is a mutex whose wait
// ends with a context: a call may hold it for as long as the other end takes. Those who
// wait are blocked on a channel, so a synctest bubble sees them idle.
package turn

import (
	"context"
	"sync/atomic"
)

// Turn is free after Init. It promises no order.
type Turn struct {
	state atomic.Int32
	wake  chan struct{} // one element: the turn may have become free
}

const (
	free    = iota
	taken   // and nobody waits
	crowded // taken, and somebody may wait
)

// Init makes the turn ready.
func (t *Turn) Init() { t.wake = make(chan struct{}, 1) }

// TryTake takes the turn if it is free.
func (t *Turn) TryTake() bool { return t.state.CompareAndSwap(free, taken) }

// Take waits for the turn, or returns ctx.Err(). A free turn is taken even if ctx is done.
func (t *Turn) Take(ctx context.Context) error {
	if t.TryTake() {
		return nil
	}
	return t.takeSlow(ctx)
}

// takeSlow waits. Whoever leaves finds the turn crowded, if this did not take it, and puts
// an element into wake. Whoever takes that element comes back here and makes the turn crowded
// again, for those who still wait; one element too many does no harm.
func (t *Turn) takeSlow(ctx context.Context) error {
	for t.state.Swap(crowded) != free {
		select {
		case <-t.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Leave frees the turn. Of several calls that wait one is woken; it wakes the next when it
// leaves.
func (t *Turn) Leave() {
	if t.state.Swap(free) == crowded {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}
