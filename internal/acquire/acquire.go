// Package acquire has the old names of what is in package hold, until its last users have moved.
package acquire

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Acquire is [hold.Acquire].
func Acquire(ctx context.Context, s *wait.Source, l core.Limiter, n int) (core.Lease, error) {
	return hold.Acquire(ctx, s, l, n)
}

// Wait is [hold.Wait].
func Wait(ctx context.Context, s *wait.Source, l core.Limiter, n int) (core.Lease, error) {
	return hold.Wait(ctx, s, l, n)
}
