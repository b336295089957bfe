package limitertest_test

import (
	"context"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
)

// mutant is a good limiter with something broken: each func that is set stands in for the
// method.
type mutant struct {
	core.Limiter

	try       func(n int) core.Lease
	acquire   func(ctx context.Context, n int) (core.Lease, error)
	available func() int
	counts    func() core.Statistics
	idle      func() (time.Duration, bool)
	settle    func(l core.Lease, permits int) core.Lease
	close     func() error
	replenish func() bool
	auto      func() bool
	reserve   func(n int) core.Lease
}

func (m *mutant) TryAcquire(n int) core.Lease {
	if m.try != nil {
		return m.try(n)
	}
	return m.own(m.Limiter.TryAcquire(n))
}

func (m *mutant) Acquire(ctx context.Context, n int) (core.Lease, error) {
	if m.acquire != nil {
		return m.acquire(ctx, n)
	}
	l, err := m.Limiter.Acquire(ctx, n)
	return m.own(l), err
}

func (m *mutant) Available() int {
	if m.available != nil {
		return m.available()
	}
	return m.Limiter.Available()
}

func (m *mutant) Statistics() core.Statistics {
	if m.counts != nil {
		return m.counts()
	}
	return m.Limiter.(core.Reporter).Statistics()
}

func (m *mutant) IdleFor() (time.Duration, bool) {
	if m.idle != nil {
		return m.idle()
	}
	return m.Limiter.(core.Idler).IdleFor()
}

// own returns a lease that m.settle settles.
func (m *mutant) own(l core.Lease) core.Lease {
	if m.settle == nil || !l.Acquired() {
		return l
	}
	var metadata []core.Metadata
	for name, value := range l.Metadata() {
		metadata = append(metadata, core.NewMetadataKey[any](name).With(value))
	}
	return core.GrantFrom(&ownLease{m, l}, l.Permits(), metadata...)
}

type ownLease struct {
	m     *mutant
	lease core.Lease
}

func (l *ownLease) Release(int) { l.lease.Release() }

func (l *ownLease) Settle(_, now int) int {
	l.lease = l.m.settle(l.lease, now)
	return now
}

func (m *mutant) Close() error {
	if m.close != nil {
		return m.close()
	}
	return m.Limiter.(io.Closer).Close()
}

// mutantRate is a mutant that replenishes.
type mutantRate struct{ mutant }

func (m *mutantRate) TryReplenish() bool {
	if m.replenish != nil {
		return m.replenish()
	}
	return m.Limiter.(core.Replenisher).TryReplenish()
}

func (m *mutantRate) ReplenishmentPeriod() time.Duration {
	return m.Limiter.(core.Replenisher).ReplenishmentPeriod()
}

func (m *mutantRate) AutoReplenishing() bool {
	if m.auto != nil {
		return m.auto()
	}
	return m.Limiter.(core.Replenisher).AutoReplenishing()
}

func (m *mutantRate) Reserve(n int) core.Lease {
	if m.reserve != nil {
		return m.reserve(n)
	}
	return m.own(m.Limiter.(core.Reserver).Reserve(n))
}
