package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Shared returns l as a limiter that ignores the request: for a [Chain] of a limit per key and
// a limit for all keys together. It passes every call on. If l is nil, every request fails.
func Shared[R any](l core.Limiter) Limiter[R] {
	if backdoor.IsNil(l) {
		l = refuse(errors.New("partition: Shared of a nil limiter"))
	}
	return &shared[R]{l}
}

type shared[R any] struct{ l core.Limiter }

func (s *shared[R]) TryAcquire(_ R, permits int) core.Lease { return s.l.TryAcquire(permits) }

func (s *shared[R]) Acquire(ctx context.Context, _ R, permits int) (core.Lease, error) {
	return s.l.Acquire(ctx, permits)
}

// Statistics returns the limiter's statistics.
func (s *shared[R]) Statistics(R) (core.Statistics, bool) { return statistics(s.l), true }

func (s *shared[R]) String() string { return "shared " + backdoor.Describe(s.l) }

// Always returns the limiter that decides all requests. Package policy looks at it for options without effect.
func (s *shared[R]) Always() core.Limiter { return s.l }

func (s *shared[R]) asks() (all []any) {
	for _, root := range ways.Roots(s.l, false) {
		all = append(all, root)
	}
	return all
}

// bind returns the limiter itself if its figures and its rejections need no help.
func (s *shared[R]) bind(Limiter[R], R) core.Limiter {
	_, reports := s.l.(core.Reporter)
	if _, quiet := s.l.(core.QuietTrier); quiet && reports {
		return s.l
	}
	return &completed{s.l}
}

// completed is a limiter with the methods that it lacks.
type completed struct{ core.Limiter }

// Reserve is the limiter's, if it is a [core.Reserver].
func (c *completed) Reserve(permits int) core.Lease { return ways.Reserve(c.Limiter, permits) }

// TryQuietly is [core.TryQuietly].
func (c *completed) TryQuietly(permits int) (core.Lease, bool) {
	return core.TryQuietly(c.Limiter, permits)
}

func (c *completed) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return waiting(ctx, c.Limiter, permits)
}

// Unwrap returns the limiter that this is a view of.
func (c *completed) Unwrap() core.Limiter { return c.Limiter }

func (c *completed) Statistics() core.Statistics { return statistics(c.Limiter) }
func (c *completed) String() string              { return backdoor.Describe(c.Limiter) }

// Translate returns l as a limiter of requests of another type: f returns the request to pass
// to l. f is called after the checks for negative permits
// and a done context, and must be safe for concurrent use. If l or f is nil, every request
// fails.
func Translate[R, Inner any](l Limiter[Inner], f func(R) Inner) Limiter[R] {
	switch {
	case backdoor.IsNil(l):
		return &shared[R]{refuse(errors.New("partition: Translate of a nil limiter"))}
	case f == nil:
		return &shared[R]{refuse(errors.New("partition: Translate with a nil function"))}
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

// Statistics returns the statistics of the limiter for r, and whether it has any.
func (t *translated[R, Inner]) Statistics(r R) (core.Statistics, bool) {
	return statisticsOf(t.l, t.f(r))
}

func (t *translated[R, Inner]) String() string { return "translated " + backdoor.Describe(t.l) }

func (t *translated[R, Inner]) bind(_ Limiter[R], r R) core.Limiter { return For(t.l, t.f(r)) }
