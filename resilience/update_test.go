package resilience_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/resilience"
)

func own(permits, queue int) resilience.Options {
	return resilience.Options{Default: core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue}}
}

// started is a Do that may wait.
type started struct {
	ran bool
	err error
}

func start(s *resilience.Strategy) *started {
	b := new(started)
	go func() {
		b.err = s.Do(context.Background(), func(context.Context) error { b.ran = true; return nil })
	}()
	synctest.Wait()
	return b
}

func TestUpdateInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := core.Must(resilience.Concurrency(1, 1))
		free := occupied(s)
		waits := start(s)
		require.False(t, waits.ran)
		require.ErrorIs(t, s.Do(t.Context(), never(t)), core.ErrRejected)

		require.ErrorContains(t, s.Update(own(-1, 0)), "PermitLimit = -1")
		require.ErrorIs(t, s.Do(t.Context(), never(t)), core.ErrRejected, "a bad Update changes nothing")

		o := own(2, 0)
		o.Name = "new"
		require.NoError(t, s.Update(o))
		synctest.Wait()
		assert.True(t, waits.ran, "who now fits is served")

		defer occupied(s)()
		var r *resilience.RejectedError
		require.ErrorAs(t, s.Do(t.Context(), never(t)), &r)
		assert.Equal(t, "new", r.Strategy)
		free()
	})
}

// What an Update leaves unset stays: a callback can be set without the limit becoming the default one.
func TestUpdateKeepsWhatIsUnset(t *testing.T) {
	var told []string
	tell := func(what string) func(context.Context, *resilience.RejectedError) {
		return func(_ context.Context, r *resilience.RejectedError) { told = append(told, what+" "+r.Strategy) }
	}
	o := own(2, 0)
	o.Name, o.OnRejected, o.Settle = "a", tell("first"), func(context.Context, error) int { told = append(told, "settled"); return -1 }
	s := core.Must(resilience.New(o))
	rejects := func(want ...string) {
		t.Helper()
		told = nil
		require.NoError(t, s.Do(t.Context(), nothing))
		first, second := occupied(s), occupied(s)
		defer first()
		defer second()
		require.ErrorIs(t, s.Do(t.Context(), never(t)), core.ErrRejected)
		require.Equal(t, want, told)
	}
	rejects("settled", "first a")
	require.NoError(t, s.Update(resilience.Options{OnRejected: tell("second")}))
	rejects("settled", "second a")
	require.NoError(t, s.Update(resilience.Options{Name: "b"}))
	rejects("settled", "second b")
	require.NoError(t, s.Update(resilience.Options{Default: core.ConcurrencyLimiterOptions{Name: "own"}}))
	rejects("settled", "second b")
	require.NoError(t, s.Update(resilience.Options{Limiter: core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2}))}))
	rejects("settled", "second b")
}

func TestUpdateReplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := core.Must(resilience.Concurrency(1, 2))
		free := occupied(s)
		first, second := start(s), start(s)
		require.NoError(t, s.Update(resilience.Options{Limiter: core.Unlimited()}))
		synctest.Wait()
		assert.False(t, first.ran, "who waits continues to wait")
		require.NoError(t, s.Do(t.Context(), nothing), "who comes now asks the new limiter")
		free()
		synctest.Wait()
		assert.True(t, first.ran)
		assert.True(t, second.ran)
		assert.NoError(t, first.err)

		require.NoError(t, s.Update(resilience.Options{Name: "other"}), "a nil Limiter keeps the present one")
		defer many(s, resilience.DefaultPermits+1)()
	})
}

// The error of a caller's limiter is not the strategy's, even if the strategy was closed meanwhile.
func TestCloseWhileACallersLimiterFails(t *testing.T) {
	boom := errors.New("boom")
	var s *resilience.Strategy
	s = core.Must(resilience.Limit(answering(func(context.Context) (core.Lease, error) {
		require.NoError(t, s.Close())
		return core.Lease{}, boom
	})))
	require.ErrorIs(t, s.Do(t.Context(), never(t)), boom)
}

// Close ends the waits of the current limiter, and of those that it has replaced.
func TestCloseEndsWaits(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := core.Must(resilience.Concurrency(1, 2))
			free := occupied(s)
			waits := start(s)
			if replaced {
				require.NoError(t, s.Update(resilience.Options{Limiter: core.Unlimited()}))
			}
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
			synctest.Wait()
			assert.False(t, waits.ran)
			assert.Equal(t, core.ErrClosed, waits.err)
			assert.Equal(t, core.ErrClosed, s.Do(t.Context(), never(t)))
			assert.Equal(t, core.ErrClosed, s.Update(resilience.Options{}))
			free()
		})
	}
}
