package core_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// GiveBack returns what was taken, the latest first, and never more than is missing.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	type giver interface {
		core.Limiter
		GiveBack(permits int)
		Settle(l core.Lease, permits int) core.Lease
	}
	for name, build := range map[string]func() (giver, error){
		"bucket": func() (giver, error) {
			return core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Minute, QueueLimit: 10})
		},
		"fixed": func() (giver, error) {
			return core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: 10, Window: time.Minute, QueueLimit: 10})
		},
		"sliding": func() (giver, error) {
			return core.NewSlidingWindow(core.SlidingWindowOptions{PermitLimit: 10, Window: time.Minute, SegmentsPerWindow: 60, QueueLimit: 10})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, err := build()
				require.NoError(t, err)
				l.GiveBack(5)
				assert.Equal(t, 10, l.Available(), "nothing was missing")

				require.True(t, l.TryAcquire(4).Acquired())
				time.Sleep(10 * time.Second)
				second := l.TryAcquire(3)
				l.GiveBack(0)
				l.GiveBack(-1)
				assert.Equal(t, 3, l.Available())
				l.GiveBack(5)
				assert.Equal(t, 8, l.Available())
				l.Settle(second, 0)
				assert.LessOrEqual(t, l.Available(), 10)
				l.GiveBack(math.MaxInt)
				assert.Equal(t, 10, l.Available())

				debt := l.Settle(l.TryAcquire(1), 15)
				l.GiveBack(4)
				assert.Equal(t, 0, l.Available(), "debts come first")
				_ = debt
				done := false
				go func() {
					_, err := l.Acquire(context.Background(), 6) //nolint:usetesting // the waiter is served
					done = err == nil
				}()
				synctest.Wait()
				l.GiveBack(6)
				synctest.Wait()
				assert.False(t, done)
				l.GiveBack(1)
				synctest.Wait()
				assert.True(t, done, "whoever fits is served")
				assert.Equal(t, 0, l.Available())
				l.GiveBack(3)
				assert.Equal(t, 3, l.Available())
				time.Sleep(time.Minute)
				assert.Equal(t, 10, l.Available())
			})
		})
	}
	new(core.TokenBucket).GiveBack(1)
}

func ExampleTokenBucket_GiveBack() {
	l, _ := core.NewTokenBucket(core.PerSecond(1, 10))
	l.TryAcquire(10) // its lease is forgotten
	l.GiveBack(4)    // the work has cost 6 only
	fmt.Println(l.Available())
	// Output: 4
}

// A window gives up what would come back first: no window of time then has more grants than the limit. All of
// it is back when the latest segment that still counts has left.
func TestGiveBackOfTheOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: 3 * time.Second, SegmentsPerWindow: 3})
		takes(t, l, 5)
		time.Sleep(time.Second)
		second := takes(t, l, 3)
		time.Sleep(time.Second)
		takes(t, l, 2)
		l.Refund(second)
		l.GiveBack(4)
		available(t, l, 7)
		resets := func(want time.Duration) {
			t.Helper()
			got, _ := core.ResetAfter.From(l.TryAcquire(0))
			require.Equal(t, want, got)
		}
		resets(3 * time.Second)
		time.Sleep(time.Second)
		available(t, l, 8) // the one that was left of the first five
		resets(2 * time.Second)
		l.GiveBack(2)
		available(t, l, 10)
		resets(0)
	})
	synctest.Test(t, func(t *testing.T) { // a later segment that was refunded does not count
		l := sliding(t, core.SlidingWindowOptions{PermitLimit: 10, Window: 3 * time.Second, SegmentsPerWindow: 3})
		takes(t, l, 5)
		time.Sleep(time.Second)
		second := takes(t, l, 3)
		l.Refund(second)
		time.Sleep(time.Second)
		third := takes(t, l, 2)
		l.Refund(third)
		l.GiveBack(2)
		got, _ := core.ResetAfter.From(l.TryAcquire(0))
		require.Equal(t, time.Second, got)
	})
}
