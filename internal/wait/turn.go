package wait

import (
	"context"
	"sync"
	"sync/atomic"
)

// Turn lets one call at a time use one side of a stream. It is a mutex whose wait ends with a context,
// because a call may hold it for as long as the other end takes. The zero Turn is free. It gives no order
// to the waiting calls, and is safe for concurrent use.
type Turn struct {
	state   atomic.Uint32 // free, taken or crowded
	mu      sync.Mutex    // guards waiting
	waiting List[struct{}]
}

// A swap takes a free turn, and another one leaves it: with a mutex instead, a throttled Write of 32 KiB
// takes 1.3 times as long (BenchmarkThrottledWrite in bench).
const (
	free    = iota
	taken   // and no call waits
	crowded // taken, and a call may be waiting
)

// Free reports whether no call has the turn.
func (t *Turn) Free() bool { return t.state.Load() == free }

// TryTake takes the turn if it is free.
func (t *Turn) TryTake() bool { return t.state.CompareAndSwap(free, taken) }

// Take waits for the turn, or returns ctx.Err(). A free turn is taken even if ctx is done.
func (t *Turn) Take(ctx context.Context) error {
	if t.TryTake() {
		return nil
	}
	if !t.takeSlow(ctx.Done()) { // no user code, such as a context's methods, is called under the mutex
		return ctx.Err()
	}
	return nil
}

// takeSlow waits for the turn. Leave finds the turn crowded unless takeSlow has taken it, and then waits for
// the mutex, so it finds the call in the list. The call that is woken comes back here and makes the turn
// crowded again for those that still wait; waking one too many does no harm.
func (t *Turn) takeSlow(done <-chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.state.Swap(crowded) != free {
		if t.waiting.Await(&t.mu, done) != Granted {
			return false
		}
	}
	return true
}

// Leave frees the turn, and wakes the call that has waited longest for it.
func (t *Turn) Leave() {
	if t.state.Swap(free) != crowded {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting.Signal()
}
