package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

var errOwn = errors.New("the client went home")

// A context's own error comes back unchanged, whichever way the context ends and whatever the limiter is.
func TestAContextsOwnErrorComesBackUnchanged(t *testing.T) {
	for _, own := range []error{errOwn, &core.RejectedError{Reason: "by the context"}, errors.Join(context.Canceled, errOwn)} {
		for kind, wrap := range map[string]func(t *testing.T, l everything) core.Limiter{
			"itself":   func(_ *testing.T, l everything) core.Limiter { return l },
			"chain":    func(t *testing.T, l everything) core.Limiter { return chain(t, concurrency(t, 9, 0), l) },
			"chains":   func(t *testing.T, l everything) core.Limiter { return chain(t, chain(t, l)) },
			"reason":   func(_ *testing.T, l everything) core.Limiter { return core.WithReason(l, "full") },
			"stranger": func(t *testing.T, l everything) core.Limiter { return chain(t, &stranger{Limiter: l}) },
		} {
			eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
				l.TryAcquire(5)
				for name, end := range map[string]func() (context.Context, context.CancelFunc){
					"canceled": func() (context.Context, context.CancelFunc) {
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(time.Nanosecond, cancel)
						return ctx, cancel
					},
					"expired": func() (context.Context, context.CancelFunc) {
						// Without the deadline, which would be too soon to wait.
						ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
						return noDeadline{ctx}, cancel
					},
				} {
					ctx, cancel := end()
					lease, err := wrap(t, l).Acquire(testkit.OwnError{Context: ctx, Own: own}, 5)
					cancel()
					require.Equal(t, own, err, "%s, %s", kind, name)
					require.Equal(t, own, lease.Err(), "%s, %s", kind, name)
					_, err = wrap(t, l).Acquire(testkit.OwnError{Context: ctx, Own: own}, 5)
					require.Equal(t, own, err, "%s, %s, before", kind, name)
				}
			})
		}
	}
}

type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// A context whose Done panics, or ends the goroutine, takes its waiter out of the queue.
func TestAContextWhoseDoneFailsLeavesNothingBehind(t *testing.T) {
	eachOfFour(t, 5, 5, func(t *testing.T, l everything) {
		lease := takes(t, l, 5)
		for name, outer := range map[string]core.Limiter{"itself": l, "chain": chain(t, l)} {
			ctx := &asked{Context: t.Context(), first: func() { panic("Done") }}
			require.PanicsWithValue(t, "Done", func() { _, _ = outer.Acquire(ctx, 5) }, name)
			require.Zero(t, l.Statistics().Queued, name)

			// Granted before it fails: the grant is given back.
			ctx.first = func() {
				l.Refund(lease)
				panic("Done")
			}
			require.PanicsWithValue(t, "Done", func() { _, _ = outer.Acquire(ctx, 5) }, name)
			available(t, l, 5)
			lease = takes(t, l, 5)
		}
	})
}

// undoes is a limiter that embeds one of core's, and keeps count of its refunds.
type undoes struct {
	*core.ConcurrencyLimiter
	refunds int
}

func (u *undoes) Refund(l core.Lease) {
	u.refunds++
	u.ConcurrencyLimiter.Refund(l)
}

// A chain undoes a grant by the limiter's own Refund, and settles by the Settle that it has, promoted or not.
func TestAChainUndoesByTheLimitersOwnRefund(t *testing.T) {
	u := &undoes{ConcurrencyLimiter: concurrency(t, 5, 0)}
	full := concurrency(t, 1, 0)
	takes(t, full, 1)
	l := chain(t, u, full)
	require.False(t, l.TryAcquire(1).Acquired())
	_, err := l.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, core.ErrRejected)
	require.Equal(t, 2, u.refunds)

	l = chain(t, u, concurrency(t, 5, 0))
	l.Refund(takes(t, l, 2))
	require.Equal(t, 3, u.refunds)
	l.Settle(takes(t, l, 2), 0)
	require.Equal(t, 4, u.refunds, "what cost nothing is refunded")
	l.Settle(takes(t, l, 2), 1) // the methods that it has are its methods, promoted or not
	require.Equal(t, 4, u.Available())
}

// A clock that goes back by little does not make a refusal last longer than a wait.
func TestABucketInTwoBubblesAnswersAlike(t *testing.T) {
	l := bucket(t, core.TokenBucketOptions{TokenLimit: 100, TokensPerPeriod: 10, ReplenishmentPeriod: 100 * time.Millisecond, QueueLimit: 100})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		takes(t, l, 50)
	})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(500 * time.Millisecond)
		lease := l.TryAcquire(90)
		require.False(t, lease.Acquired())
		retry, _ := core.RetryAfter.From(lease)
		begun := time.Now()
		_, err := l.Acquire(t.Context(), 90)
		require.NoError(t, err)
		require.Equal(t, retry, time.Since(begun))
	})
}
