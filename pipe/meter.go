package pipe

import (
	"context"
	"errors"
	"math"

	"github.com/sluice-go/sluice/core"
)

// maxSlice bounds the bytes asked for at once, so that a large Write does not keep those
// who share the limiter waiting for all of it.
const maxSlice = bufferSize

// meter asks the limiter of a side. The side's turn guards it.
type meter struct {
	limiter core.Limiter // nil: unlimited
	limit   int          // of the limiter, when last asked
	holds   bool         // leases have to be released
	builtin bool         // it is one of core's, and runs nobody else's code
	bounds  bool         // what leases are held bounds the bytes in the buffer
}

func newMeter(l core.Limiter) meter {
	m := meter{limiter: l}
	if l == nil {
		return m
	}
	switch l.(type) {
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		m.builtin = true
	case *core.ConcurrencyLimiter:
		m.builtin, m.holds, m.bounds = true, true, true
	case *core.ChainedLimiter:
		m.holds, m.bounds = true, true
	default:
		r, ok := l.(core.Replenisher)
		m.holds, m.bounds = true, !ok || r.ReplenishmentPeriod() == 0
	}
	m.ask()
	return m
}

// ask learns the limiter's limit: math.MaxInt if it does not tell.
func (m *meter) ask() {
	m.limit = math.MaxInt
	if r, ok := m.limiter.(core.Reporter); ok {
		if limit := r.Statistics().Limit; limit > 0 {
			m.limit = limit
		}
	}
}

// capacity returns the bytes that the buffer holds: beyond what the limiter lets it hold,
// so that it is the limiter that pushes back, by its queue and its queue limit.
func (m *meter) capacity() int {
	if !m.bounds || m.limit > math.MaxInt-bufferSize {
		return bufferSize
	}
	return bufferSize + m.limit
}

// take acquires permits for at most n bytes: as many as the limit allows at once. If it is
// changed meanwhile to less than what was asked for, less is asked for.
func (m *meter) take(ctx context.Context, n int) (core.Lease, int, error) {
	n = min(n, maxSlice)
	if n > m.limit {
		m.ask() // it may have grown
		n = min(n, m.limit)
	}
	for {
		lease, err := m.limiter.Acquire(ctx, n)
		switch {
		case err == nil && !lease.Acquired(): // somebody else's limiter, and careless
			if err = lease.Err(); err == nil {
				err = core.ErrRejected
			}
			return lease, 0, err
		case err == nil:
			return lease, n, nil
		case n == 1 || !errors.Is(err, core.ErrPermitsExceedLimit):
			return lease, 0, err
		}
		m.ask()
		if m.limit < n {
			n = m.limit
		} else {
			n /= 2 // it does not tell
		}
	}
}

// refund gives back the permits of bytes that did not pass.
func (m *meter) refund(l core.Lease) {
	if r, ok := m.limiter.(core.Refunder); ok {
		r.Refund(l)
		return
	}
	l.Release()
}
