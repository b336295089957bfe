package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/anylimiter"
)

// Shared returns l as a limiter that ignores the request: for a [Chain] of a limit per key and
// a limit for all keys together. It passes every call on and is a [Refunder] and a [Settler].
// If l is nil, every request fails.
func Shared[R any](l core.Limiter) Limiter[R] {
	if anylimiter.IsNil(l) {
		return &shared[R]{&refuser{errSharedNil}}
	}
	if b, ok := l.(boundLimiter); ok && !anylimiter.Embeds(l) { // whose Settle bypasses a Refund of its own
		return &shared[R]{b}
	}
	return &shared[R]{&full{l}}
}

type shared[R any] struct{ l boundLimiter }

func (s *shared[R]) TryAcquire(_ R, permits int) core.Lease { return s.l.TryAcquire(permits) }

func (s *shared[R]) Acquire(ctx context.Context, _ R, permits int) (core.Lease, error) {
	return s.l.Acquire(ctx, permits)
}

func (s *shared[R]) Refund(_ R, l core.Lease) { s.l.Refund(l) }

func (s *shared[R]) Settle(_ R, l core.Lease, permits int) core.Lease {
	return s.l.Settle(l, permits)
}

// Statistics returns the limiter's statistics and true.
func (s *shared[R]) Statistics(R) (core.Statistics, bool) { return s.l.Statistics(), true }

func (s *shared[R]) String() string { return "shared " + anylimiter.Describe(s.l) }

func (s *shared[R]) bind(Limiter[R], R) boundLimiter { return s.l }

// full adds to a limiter what it lacks of a boundLimiter.
type full struct{ core.Limiter }

// TryQuietly is [core.TryQuietly].
func (f *full) TryQuietly(permits int) (core.Lease, bool) {
	return core.TryQuietly(f.Limiter, permits)
}

func (f *full) Refund(l core.Lease) { anylimiter.Refund(f.Limiter, l) }

func (f *full) Settle(l core.Lease, permits int) core.Lease {
	return anylimiter.Settle(f.Limiter, l, permits)
}

func (f *full) Statistics() core.Statistics { return statistics(f.Limiter) }
func (f *full) String() string              { return anylimiter.Describe(f.Limiter) }
