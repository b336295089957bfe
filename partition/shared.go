package partition

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// Shared returns l as a limiter of all requests, whatever they are: for a chain of what each
// key may do and what all may do together. It passes everything on, and is a [Refunder].
// Shared of nil refuses everything.
func Shared[R any](l core.Limiter) Limiter[R] {
	return &shared[R]{boundTo(l, errSharedNil)}
}

type shared[R any] struct{ l boundLimiter }

func (s *shared[R]) TryAcquire(_ R, permits int) core.Lease { return s.l.TryAcquire(permits) }

func (s *shared[R]) Acquire(ctx context.Context, _ R, permits int) (core.Lease, error) {
	return s.l.Acquire(ctx, permits)
}

func (s *shared[R]) Refund(_ R, l core.Lease) { s.l.Refund(l) }

// Statistics are the limiter's; the result is always true.
func (s *shared[R]) Statistics(R) (core.Statistics, bool) { return s.l.Statistics(), true }

func (s *shared[R]) bind(Limiter[R], R) boundLimiter { return s.l }

// boundTo returns l with what For's limiters can do beside.
func boundTo(l core.Limiter, ofNil error) boundLimiter {
	if isNil(l) {
		return &refuser[struct{}]{ofNil}
	}
	if b, ok := l.(boundLimiter); ok {
		return b
	}
	return &full{l}
}

// full makes a Reporter and a Refunder of any limiter.
type full struct{ core.Limiter }

func (f *full) Refund(l core.Lease)         { undo(f.Limiter, l) }
func (f *full) Statistics() core.Statistics { return statistics(f.Limiter) }
