package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/direct"
)

// What a keeper of limiters that come and go needs; see package direct.

// engineOf returns the engine of one of the four limiters, or nil.
func engineOf(limiter any) *engine {
	switch l := limiter.(type) {
	case *ConcurrencyLimiter:
		if l != nil {
			return &l.engine
		}
	case *TokenBucket:
		if l != nil {
			return &l.engine
		}
	case *FixedWindow:
		if l != nil {
			return &l.engine
		}
	case *SlidingWindow:
		if l != nil {
			return &l.engine
		}
	}
	return nil
}

// retire closes the limiter if it has been idle for so long. What decides is what grants:
// all grants by swaps are in the account once the word is shut, and it is not opened again.
func (e *engine) retire(idle time.Duration) bool {
	if e.cell.Load() == nil {
		return false
	}
	now := e.lock()
	d, ok := e.idle(now)
	if ok = ok && d >= idle && e.m.Empty(); ok {
		e.closed = true
	}
	e.unlock(now)
	return ok
}

// turn returns the lease's turn. The numbers of a rate limiter's grants are consecutive but
// for the openings of its word, which take a multiple of direct.Turns.
func turn(l Lease) direct.Turn {
	switch o := l.outcome(); {
	case o.spent():
		if (l.home().first+l.generation())%direct.Turns == 0 {
			return direct.Due
		}
		return direct.Passed
	case o == closed:
		return direct.Closed
	}
	return direct.Uncounted
}

// decided returns when the lease was decided, as far as it tells; see numbers.
func decided(l Lease, base time.Time) (int64, bool) {
	var at int64
	switch l.outcome() {
	case spentWindow, exhaustedRaw:
		at = l.v
	case spentBucket:
		at, _ = l.home().spentWhen(l.v)
		at += l.home().From
	default:
		return 0, false
	}
	return at + int64(l.home().base.Sub(base)), true
}
