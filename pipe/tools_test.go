package pipe_test

import (
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

func newPipe(tb testing.TB, o pipe.Options) (*pipe.Reader, *pipe.Writer) {
	tb.Helper()
	r, w, err := pipe.New(o)
	require.NoError(tb, err)
	return r, w
}

func concurrency(tb testing.TB, permits, queue int) *core.ConcurrencyLimiter {
	tb.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue}))
}

// bucket holds so many tokens and gets as many a second; all may wait.
func bucket(tb testing.TB, tokens int) *core.TokenBucket {
	tb.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{
		TokenLimit: tokens, TokensPerPeriod: tokens, ReplenishmentPeriod: time.Second, QueueLimit: math.MaxInt,
	})
	require.NoError(tb, err)
	return l
}

func writes(tb testing.TB, w io.Writer, s string) {
	tb.Helper()
	n, err := io.WriteString(w, s)
	assert.NoError(tb, err)
	assert.Equal(tb, len(s), n)
}

// reads asks for n bytes at most.
func reads(tb testing.TB, r io.Reader, n int, want string) {
	tb.Helper()
	buf := make([]byte, n)
	n, err := r.Read(buf)
	assert.NoError(tb, err)
	assert.Equal(tb, want, string(buf[:n]))
}

func available(tb testing.TB, l core.Limiter, want int) {
	tb.Helper()
	assert.Equal(tb, want, l.Available())
}
