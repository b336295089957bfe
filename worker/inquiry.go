package worker

import "sync/atomic"

// inquiry says whether a worker asks the limiter for the lease of the task that was at the
// head of the queue. The others leave the queue alone till then: one goroutine waits,
// whatever is queued, and nobody overtakes.
//
// It begins under the pool's mutex, and ends without if nobody heeds it: a hold of the mutex
// is a good part of what a short task costs. So whoever, with the mutex held, lets something
// be since a worker asks, calls heeded. Either that worker takes the mutex after, and sees to
// what was left; or it has ended in this moment, and the caller sees to it itself.
type inquiry struct {
	begun uint32        // even; two more for each; written under the mutex, while no worker asks
	ended atomic.Uint32 // as begun: none asks; 2 less: one asks; 1 less: one asks, and is heeded
}

// begin is for a worker that will ask, while none does. The mutex is held.
func (q *inquiry) begin() { q.begun += 2 }

// now reports whether a worker asks. The mutex is held.
func (q *inquiry) now() bool { return q.ended.Load() != q.begun }

// heeded reports whether a worker asks, which then takes the mutex after. The mutex is held.
func (q *inquiry) heeded() bool {
	n := q.ended.Load()
	return n == q.begun-1 || n != q.begun && q.ended.CompareAndSwap(n, n+1)
}

// endUnheeded ends it, unless it is heeded. It is for the worker that asked.
func (q *inquiry) endUnheeded() bool { return q.ended.CompareAndSwap(q.begun-2, q.begun) }

// end ends it in any case. The mutex is held.
func (q *inquiry) end() { q.ended.Store(q.begun) }
