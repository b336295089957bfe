package compat_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fastBucket returns a bucket that takes next to no time for what tests send.
func fastBucket(t *testing.T) core.Limiter {
	t.Helper()
	l, err := core.NewTokenBucket(ioreader.PerSecond(1 << 30))
	require.NoError(t, err)
	return l
}

// slots returns a concurrency limiter whose queue is unbounded.
func slots(t *testing.T, permits int) *core.ConcurrencyLimiter {
	t.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: math.MaxInt})
	require.NoError(t, err)
	return l
}

func chain(t *testing.T, limiters ...core.Limiter) core.Limiter {
	t.Helper()
	l, err := core.Chain(limiters...)
	require.NoError(t, err)
	return l
}
