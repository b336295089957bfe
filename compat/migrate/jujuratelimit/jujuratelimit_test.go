package jujuratelimit_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/internal/arrivals"
	"github.com/sluice-go/sluice/compat/migrate/jujuratelimit/after"
	"github.com/sluice-go/sluice/compat/migrate/jujuratelimit/before"
	"github.com/sluice-go/sluice/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// While the bucket is never full, the same requests get a token.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewBucket()
		is, err := after.NewBucket()
		require.NoError(t, err)
		require.Equal(t, 20, arrivals.Granted(30, func() bool { return before.Try(was) }))
		require.Equal(t, 20, arrivals.Granted(30, func() bool { return after.Try(is) }))
		arrivals.Compare(t, arrivals.Random(10_000, 5*time.Millisecond),
			func() bool { return before.Try(was) },
			func() bool { return after.Try(is) },
		)
	})
}

// A bucket that was full gets its next token up to a tick later here: the tick begins when it
// leaves full, not when it was made.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewBucket()
		is, err := after.NewBucket()
		require.NoError(t, err)
		time.Sleep(9 * time.Millisecond)
		require.Equal(t, 20, arrivals.Granted(20, func() bool { return before.Try(was) }))
		require.Equal(t, 20, arrivals.Granted(20, func() bool { return after.Try(is) }))
		time.Sleep(time.Millisecond)
		require.True(t, before.Try(was))
		require.False(t, after.Try(is))
		time.Sleep(9 * time.Millisecond)
		require.True(t, after.Try(is))
	})
}

// A wait that would be too long ends at once, in both.
func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		was := before.NewBucket()
		is, err := after.NewBucket()
		require.NoError(t, err)
		begin := time.Now()
		for range 20 {
			before.Wait(was)
			require.NoError(t, after.Wait(t.Context(), is))
		}
		require.False(t, before.WaitFor(was, 9*time.Millisecond))
		require.False(t, after.WaitFor(t.Context(), is, 9*time.Millisecond))
		require.Equal(t, begin, time.Now())
		require.True(t, before.WaitFor(was, 11*time.Millisecond))
		require.True(t, after.WaitFor(t.Context(), is, 11*time.Millisecond))
		require.Equal(t, 10*time.Millisecond, time.Since(begin))
	})
}

// More than the bucket holds is a longer wait before, and an error after.
func TestMoreThanTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, 200*time.Millisecond, before.NewBucket().Take(40))
		is, err := after.NewBucket()
		require.NoError(t, err)
		_, err = is.Acquire(t.Context(), 40)
		require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
	})
}

// Two mebibytes take about two seconds; what the bucket saved up is 64 KiB before, 10 ms after.
func TestReader(t *testing.T) {
	for name, c := range map[string]struct {
		slow   func(context.Context, io.Reader) (io.Reader, error)
		atMost time.Duration
	}{
		"before": {func(_ context.Context, r io.Reader) (io.Reader, error) { return before.Slow(r), nil }, 1950 * time.Millisecond},
		"after":  {after.Slow, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r, err := c.slow(t.Context(), bytes.NewReader(make([]byte, 2<<20)))
				require.NoError(t, err)
				n, err := io.Copy(io.Discard, struct{ io.Reader }{r})
				require.NoError(t, err)
				require.EqualValues(t, 2<<20, n)
				require.GreaterOrEqual(t, time.Since(begin), c.atMost-25*time.Millisecond)
				require.LessOrEqual(t, time.Since(begin), c.atMost)
			})
		})
	}
}
