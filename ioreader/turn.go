package ioreader

import "sync/atomic"

// turn lets one call at a time use a side of a stream. It is a mutex whose wait ends with
// the stream: a call may hold it for as long as the other end takes.
type turn struct {
	state atomic.Int32
	wake  chan struct{} // one element: the turn may have become free
}

const (
	nobody  = iota
	alone   // held, and nobody waits
	crowded // held, and somebody may wait
)

func newTurn() turn { return turn{wake: make(chan struct{}, 1)} }

func (t *turn) try() bool { return t.state.CompareAndSwap(nobody, alone) }

// takeSlow waits for the turn, or for e to end.
func (t *turn) takeSlow(e *ending) error {
	e.hold()
	defer e.let()
	// Whoever leaves finds it crowded, if this did not take it, and puts an element into
	// wake. Whoever takes that element comes back here and makes it crowded again, for
	// those who still wait; one too many does no harm.
	for t.state.Swap(crowded) != nobody {
		select {
		case <-t.wake:
		case <-e.done:
			return e.Err()
		}
	}
	return nil
}

// leave frees the turn. Of several who wait one is woken; it wakes the next in its turn.
func (t *turn) leave() {
	if t.state.Swap(nobody) == crowded {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}
