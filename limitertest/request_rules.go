package limitertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/core"
)

// checksInOrder wants negative permits to be found first, then a done context, then more than the
// limit. None of these requests counts, and none takes anything.
func checksInOrder(s *subject) {
	before, _ := s.counts()
	done := s.done()
	late, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, n := range []int{-1, math.MinInt} {
		if l := s.l.TryAcquire(n); l.Acquired() || !errors.Is(l.Err(), core.ErrNegativePermits) {
			s.errorf("TryAcquire(%d): acquired %v, %v, want core.ErrNegativePermits", n, l.Acquired(), l.Err())
		}
		s.fails(s.ctx, n, core.ErrNegativePermits, "")
		s.fails(done, n, core.ErrNegativePermits, "with a done context")
	}
	counts := []int{0, 1, s.Limit}
	if !s.unlimited() {
		counts = append(counts, s.Limit+1)
	}
	refuses := func(left int, when string) {
		for _, n := range counts {
			s.fails(done, n, context.Canceled, "with a canceled context, "+when)
			s.fails(late, n, context.DeadlineExceeded, "after the context's deadline, "+when)
		}
		s.counted(before, 0, 0, "calls with negative permits and done contexts, "+when)
		s.has(left, "after calls that take nothing, "+when)
	}
	refuses(s.Limit, "with all permits available")
	if s.unlimited() {
		return
	}
	s.empties()
	before, _ = s.counts()
	refuses(0, "with nothing available")
}

// fails wants an Acquire to return that very error immediately.
func (s *subject) fails(ctx context.Context, n int, want error, when string) {
	s.acquiresNow(ctx, n, when).wantError(want, when)
}

// moreThanLimit wants a request that can never be served to fail as such, whether permits are
// available or not, and not to count.
func moreThanLimit(s *subject) {
	for _, when := range []string{"of a new limiter", "with nothing available"} {
		before, _ := s.counts()
		for _, n := range []int{s.Limit + 1, math.MaxInt} {
			l := s.l.TryAcquire(n)
			s.leases = append(s.leases, l)
			s.exceeds(l.Err(), n, s.Limit, fmt.Sprintf("TryAcquire(%d) %s", n, when))
			ctx, cancel := context.WithTimeout(s.ctx, time.Second)
			c := s.acquiresNow(ctx, n, when)
			cancel()
			s.exceeds(c.err, n, s.Limit, fmt.Sprintf("Acquire(%d) %s", n, when))
			s.matches(c.lease, c.err, "Acquire of more than the limit")
		}
		s.counted(before, 0, 0, "requests above the limit")
		if s.l.Available() == s.Limit {
			s.empties()
		}
	}
}

// exceeds wants the error to be core.ErrPermitsExceedLimit; and if it has numbers, that
// they are right. The limit may be that of one of a chain's.
func (s *subject) exceeds(err error, n, limit int, what string) {
	if !errors.Is(err, core.ErrPermitsExceedLimit) {
		s.errorf("%s: %v, want core.ErrPermitsExceedLimit", what, err)
	}
	if errors.Is(err, core.ErrRejected) {
		s.errorf("%s: the error is core.ErrRejected too, but no other time will do", what)
	}
	var e *core.ExceedsLimitError
	if errors.As(err, &e) && (e.Permits != n || e.Limit < limit || e.Limit >= n) {
		s.errorf("%s: the error says %d permits of %d, want %d of %d", what, e.Permits, e.Limit, n, limit)
	}
}
