// Package after paces calls with a core.TokenBucket.
package after

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// NewLimiter returns a limiter of 100 calls a second, 11 of them at once after a pause.
func NewLimiter() (*core.TokenBucket, error) {
	return core.NewTokenBucket(core.PerSecond(100, 11))
}

// NewEven returns a limiter of 100 calls a second, none closer than 10 ms to the last.
func NewEven() (*core.TokenBucket, error) {
	return core.NewTokenBucket(core.PerSecond(100, 1))
}

// Wait waits until a call may start.
func Wait(ctx context.Context, l *core.TokenBucket) error {
	_, err := l.Acquire(ctx, 1)
	return err
}
