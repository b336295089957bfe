package hold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/internal/wait"
)

// wrapped is a user's limiter, which has no plain permits. It settles through the embedded one.
type wrapped struct{ *core.ConcurrencyLimiter }

// eachKind runs a test with a limiter that is held as plain permits and with one that is held as leases.
func eachKind(t *testing.T, permits, queue int, test func(t *testing.T, l hold.Limiter, plain bool)) {
	t.Helper()
	testkit.Bubble(t, "plain", func(t *testing.T) {
		test(t, hold.Of(concurrency(t, permits, queue)), true)
	})
	testkit.Bubble(t, "leases", func(t *testing.T) {
		test(t, hold.Of(wrapped{concurrency(t, permits, queue)}), false)
	})
}

func TestTakeWaits(t *testing.T) {
	eachKind(t, 1, 9, func(t *testing.T, l hold.Limiter, _ bool) {
		held, err := l.Try(1)
		require.NoError(t, err)
		var open, closing wait.Source
		embedded, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		own := testkit.OwnError{Context: embedded, Own: errOwn}
		take := func(ctx context.Context, s *wait.Source) <-chan error {
			ended := make(chan error, 1)
			go func() {
				h, err := l.Take(ctx, s, 1)
				if err == nil {
					l.Refund(h)
				}
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		first, second, third, fourth := take(own, &open), take(own, nil), take(t.Context(), &closing), take(t.Context(), &open)
		start := time.Now()
		require.Equal(t, errOwn, <-first, "the context's error comes back unchanged")
		require.Equal(t, errOwn, <-second, "without a source, too")
		require.Equal(t, time.Second, time.Since(start))
		closing.End(errClosed)
		require.Equal(t, errClosed, <-third)
		synctest.Wait()
		require.Empty(t, fourth)
		l.Refund(held)
		require.NoError(t, <-fourth)

		_, err = l.Take(own, &open, 1) // what has ended is not asked
		require.Equal(t, errOwn, err)
		_, err = l.Take(t.Context(), &closing, 1)
		require.Equal(t, errClosed, err)
		require.Equal(t, 1, l.Available())
	})
}

// A user's limiter may answer with a lease and an error that differ: the error counts, and a rejection keeps
// its metadata.
func TestCheckedKeepsMetadata(t *testing.T) {
	l := concurrency(t, 1, 0)
	defer l.TryAcquire(1).Release()
	rejection := l.TryAcquire(1)
	own := &core.RejectedError{Reason: "ours"}
	lease, err := backdoor.Checked(rejection, own)
	require.Same(t, own, err)
	require.Same(t, own, lease.Err())
	_, ok := core.Remaining.From(lease)
	require.True(t, ok)

	lease, err = backdoor.Checked(rejection, errOwn)
	require.Equal(t, errOwn, err)
	require.Equal(t, errOwn, lease.Err())
	_, ok = core.Remaining.From(lease)
	require.False(t, ok, "another error than a rejection has no metadata")
}
