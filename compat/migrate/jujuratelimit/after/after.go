// Package after limits calls with a core.TokenBucket.
package after

import (
	"context"
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// NewBucket returns a bucket of 100 tokens a second, which holds 20.
func NewBucket() (*core.TokenBucket, error) {
	return core.NewTokenBucket(core.PerSecond(100, 20))
}

// Wait waits for a token.
func Wait(ctx context.Context, b *core.TokenBucket) error {
	_, err := b.Acquire(ctx, 1)
	return err
}

// WaitFor waits for a token, for at most d, and reports whether it got one.
func WaitFor(ctx context.Context, b *core.TokenBucket, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	lease, _ := b.Acquire(ctx, 1)
	return lease.Acquired()
}

// Try takes a token if there is one.
func Try(b *core.TokenBucket) bool {
	return b.TryAcquire(1).Acquired()
}

// Slow returns a reader of at most 1 MiB/s.
func Slow(ctx context.Context, r io.Reader) (io.Reader, error) {
	limiter, err := core.NewTokenBucket(ioreader.PerSecond(1 << 20))
	if err != nil {
		return nil, err
	}
	return ioreader.NewReader(ctx, r, limiter), nil
}
