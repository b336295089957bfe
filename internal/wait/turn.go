package wait

import (
	"context"
	"sync"
	"sync/atomic"
)

// Turn lets one call at a time use one side of a stream. It is a mutex whose wait ends with a context,
// because a call may hold it for as long as the other end takes. Calls that wait get the turn in the order in which
// they came: a call that leaves hands the turn over, so a call that asks again at once stands behind them. The zero
// Turn is free. It is safe for concurrent use.
type Turn struct {
	state   atomic.Uint32 // free, taken or crowded
	mu      sync.Mutex    // guards waiting
	waiting List[struct{}]
}

// Without a waiting call, one compare-and-swap takes a free turn, and another one leaves it: with a mutex instead, a
// throttled Write of 32 KiB takes 1.3 times as long (BenchmarkThrottledWrite in bench).
const (
	free    = iota // and no call waits
	taken          // and no call waits
	crowded        // taken, and a call may be waiting
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
// the mutex, so it finds the call in the list.
func (t *Turn) takeSlow(done <-chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state.Swap(crowded) == free || t.waiting.Await(&t.mu, done) == Granted
}

// Leave hands the turn to the call that has waited longest for it, or frees it if no call waits.
func (t *Turn) Leave() {
	if !t.state.CompareAndSwap(taken, free) {
		t.leaveSlow()
	}
}

func (t *Turn) leaveSlow() {
	t.mu.Lock()
	next := t.waiting.Decide(Granted)
	if next == nil { // those that waited have given up
		t.state.Store(free)
	} else if t.waiting.Empty() {
		t.state.Store(taken)
	}
	t.mu.Unlock()
	next.Wake()
}
