package limitertest

import (
	"context"
	"errors"
	"io"

	"github.com/sluice-go/sluice/core"
)

// closeRefuses wants Close to refuse every request, whatever is available. Checks that come before
// still do.
func closeRefuses(s *subject) {
	l := s.takes(1)
	before, _ := s.counts()
	s.closes()
	counts := []int{0, 1, s.Limit}
	if !s.unlimited() {
		counts = append(counts, s.Limit+1)
	}
	for _, n := range counts {
		if l := s.l.TryAcquire(n); l.Acquired() || !errors.Is(l.Err(), core.ErrClosed) {
			s.faultf("TryAcquire(%d) after Close: acquired %v, %v, want core.ErrClosed", n, l.Acquired(), l.Err())
		}
		s.fails(s.ctx, n, core.ErrClosed, "after Close")
		s.fails(s.done(), n, context.Canceled, "with a cancelled context, after Close")
	}
	if l := s.l.TryAcquire(-1); !errors.Is(l.Err(), core.ErrNegativePermits) {
		s.faultf("TryAcquire(-1) after Close: %v, want core.ErrNegativePermits", l.Err())
	}
	s.counted(before, 0, 0, "calls after Close")
	l.Release()
	if s.Holds && s.Refill == 0 {
		s.has(s.Limit, "after Close, and the release of all leases")
	}
	s.closes()
}

// closeEndsWaits wants Close to end every wait with core.ErrClosed.
func closeEndsWaits(s *subject) {
	s.empties()
	before, _ := s.counts()
	c, zero := s.waiter(1, "with nothing available"), s.waiter(0, "with nothing available")
	s.closes()
	s.synchronize()
	c.wantError(core.ErrClosed, "after Close")
	zero.wantError(core.ErrClosed, "after Close")
	s.counted(before, 0, 0, "waits ended by Close")
	s.queues(0, "after Close")
}

// closes wants Close to return nil.
func (s *subject) closes() {
	if err := s.l.(io.Closer).Close(); err != nil {
		s.faultf("Close: %v, want nil", err)
	}
}
