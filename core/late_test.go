package core_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// A rate under whose manual terms all wait, until automatic ones begin.
type lateRate struct {
	core.Limiter
	core.Reporter

	begin  func() error
	end    func() error
	lump   int // comes every period
	period time.Duration
}

const lateWaiters = 2000

func lateRates(t *testing.T) map[string]lateRate {
	t.Helper()
	smooth := core.PerSecond(10_000, 1)
	lumpy := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Millisecond, QueueLimit: lateWaiters}
	whole := core.FixedWindowOptions{PermitLimit: 10, Window: time.Millisecond, QueueLimit: lateWaiters}
	parts := core.SlidingWindowOptions{PermitLimit: 40, Window: 4 * time.Millisecond, SegmentsPerWindow: 4, QueueLimit: lateWaiters}
	smooth.ManualReplenishment, lumpy.ManualReplenishment = true, true
	whole.ManualReplenishment, parts.ManualReplenishment = true, true
	b, c, f, s := bucket(t, smooth), bucket(t, lumpy), fixed(t, whole), sliding(t, parts)
	smooth.ManualReplenishment, lumpy.ManualReplenishment = false, false
	whole.ManualReplenishment, parts.ManualReplenishment = false, false
	return map[string]lateRate{
		"bucket":       {b, b, func() error { return b.Update(smooth) }, b.Close, 1, 100 * time.Microsecond},
		"lumpy bucket": {c, c, func() error { return c.Update(lumpy) }, c.Close, 10, time.Millisecond},
		"fixed":        {f, f, func() error { return f.Update(whole) }, f.Close, 10, time.Millisecond},
		"sliding":      {s, s, func() error { return s.Update(parts) }, s.Close, 40, 4 * time.Millisecond},
	}
}

// However late timers and goroutines are, waiters get what has come by now: no less, and no
// more. In real time, beside goroutines that leave nobody a processor.
func TestWaitersGetTheirRateHoweverLate(t *testing.T) {
	for name, l := range lateRates(t) {
		t.Run(name, func(t *testing.T) {
			takes(t, l, l.lump)
			var group sync.WaitGroup
			for range lateWaiters {
				group.Go(func() {
					if _, err := l.Acquire(t.Context(), 1); err != nil && !errors.Is(err, core.ErrClosed) {
						t.Error(err)
					}
				})
			}
			for l.Statistics().Queued < lateWaiters {
				runtime.Gosched()
			}
			var stop atomic.Bool
			for range runtime.GOMAXPROCS(0) {
				group.Go(func() {
					for !stop.Load() { // keeps timers waiting
					}
				})
			}
			least := time.Now()
			assert.NoError(t, l.begin())
			most := time.Now()
			for range 5 {
				time.Sleep(7 * time.Millisecond)
				atLeast := int(time.Since(most)/l.period) * l.lump
				served := lateWaiters - l.Statistics().Queued
				atMost := int(time.Since(least)/l.period+2) * l.lump
				assert.GreaterOrEqual(t, served, min(atLeast, lateWaiters))
				assert.LessOrEqual(t, served, atMost)
			}
			stop.Store(true)
			assert.NoError(t, l.end())
			group.Wait()
		})
	}
}

// In virtual time no timer is late, and each waiter is served when a refusal, just before it
// queued, said that it would be; with a debt, too.
func TestWaitersAreServedWhenRefusalsSay(t *testing.T) {
	eachRate(t, func(t *testing.T, name string, l resettable) {
		if name == "manual" || name == "chain" { // a chain's second limiter is asked later
			return
		}
		time.Sleep(123 * time.Millisecond)
		l.Settle(takes(t, l, 5), 12)
		type due struct {
			*acquire
			at time.Time
		}
		var all []due
		for _, n := range []int{1, 2, 1, 1} {
			retry, ok := core.RetryAfter.From(l.TryAcquire(n))
			require.True(t, ok)
			all = append(all, due{queues(t, l, n), time.Now().Add(retry)})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, a := range all {
			require.True(t, a.done.Load())
			require.NoError(t, a.err)
			require.Equal(t, a.at, a.acquire.at)
		}
	})
}
