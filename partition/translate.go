package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// Translate returns l as a limiter of another type of request: f says what a request is to
// l. It is a [Refunder]. f is asked after negative permits and a done context are refused,
// and must be safe for concurrent use. Translate of nil, or with a nil f, refuses everything.
func Translate[R, Inner any](l Limiter[Inner], f func(R) Inner) Limiter[R] {
	switch {
	case isNil(l):
		return &shared[R]{&refuser[struct{}]{errTranslateNil}}
	case f == nil:
		return &shared[R]{&refuser[struct{}]{errTranslateFor}}
	}
	return &translated[R, Inner]{l, f}
}

type translated[R, Inner any] struct {
	l Limiter[Inner]
	f func(R) Inner
}

func (t *translated[R, Inner]) TryAcquire(r R, permits int) core.Lease {
	if err := check(none, permits); err != nil {
		return core.Refuse(err)
	}
	return t.l.TryAcquire(t.f(r), permits)
}

func (t *translated[R, Inner]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return refuse(err)
	}
	return t.l.Acquire(ctx, t.f(r), permits)
}

func (t *translated[R, Inner]) Refund(r R, l core.Lease) {
	if l.Acquired() {
		refundTo(t.l, t.f(r), l)
	}
}

// Statistics are those of what r is translated to.
func (t *translated[R, Inner]) Statistics(r R) (core.Statistics, bool) {
	return statisticsOf(t.l, t.f(r))
}

func (t *translated[R, Inner]) bind(_ Limiter[R], r R) boundLimiter {
	return For(t.l, t.f(r)).(boundLimiter)
}
