package compat_test

import (
	"math"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fastBucket returns a bucket that takes next to no time for what tests send.
func fastBucket(t *testing.T) core.Limiter {
	t.Helper()
	return core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 30)))
}

// slots returns a concurrency limiter whose queue is unbounded.
func slots(t *testing.T, permits int) *core.ConcurrencyLimiter {
	t.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: math.MaxInt}))
}

func chain(t *testing.T, limiters ...core.Limiter) core.Limiter {
	t.Helper()
	return core.Must(core.Chain(limiters...))
}
