package partition

import (
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/callback"
)

// sweeps counts the sweeps of a Keyed that run now. A sweep calls user code (IdleFor and Close of
// limiters, OnEvict), which may call the Keyed again. Calls from there must not sweep: each could drop
// another partition, and their calls would be as deep in each other as there are idle partitions.
type sweeps struct{ running atomic.Int32 }

// maxSweeps is the maximum number of sweeps at a time. User code may call the Keyed on another goroutine
// and wait for it; Inside does not see such calls.
const maxSweeps = 64

// start starts a sweep of one call's share. It returns false if another sweep runs, which may be the
// caller's own.
func (s *sweeps) start() bool { return s.running.CompareAndSwap(0, 1) }

// startNeeded starts a sweep that the caller cannot do without. Other goroutines may sweep meanwhile.
// It returns false if the caller is called by a sweep.
func (s *sweeps) startNeeded() bool {
	n := s.running.Add(1)
	if n == 1 || n <= maxSweeps && !userCall.Inside() {
		return true
	}
	s.end()
	return false
}

func (s *sweeps) end() { s.running.Add(-1) }

// callUser calls user code of a sweep. Its frame is the mark by which userCall knows.
//
//go:noinline
func callUser(f func()) { f() }

var userCall = callback.MarkOf(callUser)
