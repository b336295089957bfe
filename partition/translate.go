package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Translate returns l as a limiter of requests of another type: f returns the request to pass
// to l. It is a [Refunder] and a [Settler]. f is called after the checks for negative permits
// and a done context, and must be safe for concurrent use. If l or f is nil, every request
// fails.
func Translate[R, Inner any](l Limiter[Inner], f func(R) Inner) Limiter[R] {
	switch {
	case backdoor.IsNil(l):
		return &shared[R]{refuse(errTranslateNil)}
	case f == nil:
		return &shared[R]{refuse(errTranslateFunc)}
	}
	return &translated[R, Inner]{l, f}
}

type translated[R, Inner any] struct {
	l Limiter[Inner]
	f func(R) Inner
}

func (t *translated[R, Inner]) TryAcquire(r R, permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	return t.l.TryAcquire(t.f(r), permits)
}

func (t *translated[R, Inner]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return t.l.Acquire(ctx, t.f(r), permits)
}

func (t *translated[R, Inner]) Refund(r R, l core.Lease) {
	if l.Acquired() {
		refundTo(t.l, t.f(r), l)
	}
}

func (t *translated[R, Inner]) Settle(r R, l core.Lease, permits int) core.Lease {
	if !l.Acquired() {
		return l
	}
	return settleTo(t.l, t.f(r), l, permits)
}

// Statistics returns the statistics of what r is translated to.
func (t *translated[R, Inner]) Statistics(r R) (core.Statistics, bool) {
	return statisticsOf(t.l, t.f(r))
}

func (t *translated[R, Inner]) bind(_ Limiter[R], r R) bound {
	return bind(t.l, t.f(r))
}

func (t *translated[R, Inner]) String() string { return "translated " + backdoor.Describe(t.l) }
