package core_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

func TestABucketsClockStartsWhenItLeavesFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second})
		time.Sleep(700 * time.Millisecond) // full: nothing ticks
		takes(t, l, 1)
		time.Sleep(300 * time.Millisecond)
		takes(t, l, 2)
		rejected(t, l, 1, 700*time.Millisecond)
		rejected(t, l, 2, 1700*time.Millisecond)
		rejected(t, l, 3, 2700*time.Millisecond)
		time.Sleep(700*time.Millisecond - 1)
		rejected(t, l, 1, 1)
		time.Sleep(1)
		available(t, l, 1)

		// Full again at the third tick; its clock stops there.
		time.Sleep(2 * time.Second)
		available(t, l, 3)
		time.Sleep(500 * time.Millisecond)
		takes(t, l, 3)
		rejected(t, l, 1, time.Second)
	})
}

func TestABucketNeverHoldsMoreThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 3, ReplenishmentPeriod: time.Second})
		takes(t, l, 4)
		for _, want := range []int{1, 4, 5, 5} {
			available(t, l, want)
			time.Sleep(time.Second)
		}
		takes(t, l, 5)
		rejected(t, l, 1, time.Second)
	})
}

// A burst of 30 against 5 per second and a queue of 25: 5 each second, for 6 seconds.
func TestABucketTurnsABurstIntoARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 5, ReplenishmentPeriod: time.Second, QueueLimit: 25})
		start := time.Now()
		var burst []*acquire
		for range 30 {
			burst = append(burst, acquires(t, l, 1))
		}
		acquires(t, l, 1).rejected(t, "queue limit reached", 6*time.Second)
		counts(t, l, 5, 0, 25, 5, 1)
		time.Sleep(5*time.Second - 1)
		counts(t, l, 5, 0, 5, 25, 1)
		time.Sleep(1)
		synctest.Wait()
		for i, a := range burst {
			require.NoError(t, a.err)
			require.Equal(t, time.Duration(i/5)*time.Second, a.at.Sub(start), i)
		}
		counts(t, l, 5, 0, 0, 30, 1)
		time.Sleep(time.Second)
		counts(t, l, 5, 5, 0, 30, 1)
	})
}

func TestWaitersWakeAtTheVeryInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 3, ReplenishmentPeriod: 7, QueueLimit: 100})
		takes(t, l, 10)
		start := time.Now()
		// Tokens: 3 at 7, 6 at 14, ...
		one, ten, two := queues(t, l, 1), queues(t, l, 10), queues(t, l, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, time.Duration(7), one.at.Sub(start))
		require.Equal(t, time.Duration(28), ten.at.Sub(start), "11 tokens")
		require.Equal(t, time.Duration(35), two.at.Sub(start), "13 tokens")
	})
}

func TestABucketOfOneNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: 1, QueueLimit: 10})
		takes(t, l, 5)
		rejected(t, l, 4, 4)
		a := queues(t, l, 3)
		rejected(t, l, 1, 4)
		time.Sleep(2)
		a.waits(t)
		time.Sleep(1)
		a.granted(t)
		time.Sleep(2)
		available(t, l, 2)
		time.Sleep(19 * 365 * 24 * time.Hour)
		available(t, l, 5)
		d, idle := l.IdleFor()
		require.True(t, idle)
		require.Equal(t, 19*365*24*time.Hour-3, d)
	})
}

func TestABucketIdleForCenturies(t *testing.T) {
	century := 100 * 365 * 24 * time.Hour // no constant: a machine of 32 bits would not compile int(century)
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: math.MaxInt, TokensPerPeriod: math.MaxInt, ReplenishmentPeriod: 1})
		takes(t, l, math.MaxInt)
		rejected(t, l, math.MaxInt, 1)
		time.Sleep(2 * century)
		takes(t, l, math.MaxInt)
		rejected(t, l, 1, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		if math.MaxInt < math.MaxInt64 {
			return // this machine's largest bucket is full in seconds
		}
		// One token each nanosecond fills it in 292 years: no more than two centuries of it.
		l := bucket(t, core.TokenBucketOptions{TokenLimit: math.MaxInt, TokensPerPeriod: 1, ReplenishmentPeriod: 1})
		takes(t, l, math.MaxInt)
		rejected(t, l, math.MaxInt, math.MaxInt64)
		time.Sleep(century)
		available(t, l, int(century))
		time.Sleep(century)
		available(t, l, 2*int(century))
		takes(t, l, 2*int(century))
		rejected(t, l, 1, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 2, TokensPerPeriod: 1, ReplenishmentPeriod: century, QueueLimit: 2})
		takes(t, l, 2)
		rejected(t, l, 2, 2*century)
		a := queues(t, l, 2)
		time.Sleep(2 * century)
		a.granted(t)
	})
}

// An instant that never comes does not become one that does for those behind.
func TestBehindAWaiterThatIsNeverServed(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 3, TokensPerPeriod: 1, ReplenishmentPeriod: 2 * century, QueueLimit: 3})
		takes(t, l, 3)
		a := queues(t, l, 2) // in four centuries
		lease := l.TryAcquire(1)
		d, ok := core.RetryAfter.From(lease)
		require.True(t, ok)
		require.Equal(t, time.Duration(math.MaxInt64), d)
		acquiresWithin(t, l, 1, 250*365*24*time.Hour).rejected(t, "deadline too soon", math.MaxInt64)
		a.cancelled(t)
	})
}

func TestABucketDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 1000, TokensPerPeriod: 1, ReplenishmentPeriod: 7 * time.Millisecond})
		takes(t, l, 1000)
		total, slept := 0, time.Duration(0)
		for i := range 997 { // odd steps that never meet a tick
			step := time.Duration(i*i%13+1)*time.Millisecond + time.Duration(i)
			time.Sleep(step)
			slept += step
			if n := l.Available(); n > 0 {
				takes(t, l, n)
				total += n
			}
		}
		require.Equal(t, int(slept/(7*time.Millisecond)), total)
	})
}

func TestAManualBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{
			TokenLimit: 4, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 4, ManualReplenishment: true,
		})
		require.False(t, l.AutoReplenishing())
		require.False(t, l.TryReplenish(), "it is full")
		takes(t, l, 4)
		time.Sleep(2500 * time.Millisecond)
		rejected(t, l, 1, 0)
		a := queues(t, l, 1)
		a.waits(t)
		require.True(t, l.TryReplenish())
		a.granted(t)
		available(t, l, 1)
		require.False(t, l.TryReplenish(), "what was due has been applied")
		time.Sleep(500 * time.Millisecond)
		require.True(t, l.TryReplenish(), "the third tick")
		available(t, l, 2)
		time.Sleep(time.Hour)
		available(t, l, 2)
		require.True(t, l.TryReplenish())
		counts(t, l, 4, 4, 0, 2, 1)
	})
}

func TestAnAutomaticLimiterIsNotReplenishedByHand(t *testing.T) {
	for _, name := range []string{"bucket", "fixed", "sliding"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := four(t, 2, 0)[name].(core.Replenisher)
				takes(t, l.(core.Limiter), 2)
				time.Sleep(time.Hour)
				require.False(t, l.TryReplenish())
				require.True(t, l.AutoReplenishing())
				available(t, l.(core.Limiter), 2)
			})
		})
	}
}

func TestReplenishmentPeriods(t *testing.T) {
	rates := four(t, 2, 0)
	require.Equal(t, time.Second, rates["bucket"].(core.Replenisher).ReplenishmentPeriod())
	require.Equal(t, time.Second, rates["fixed"].(core.Replenisher).ReplenishmentPeriod())
	require.Equal(t, time.Second/2, rates["sliding"].(core.Replenisher).ReplenishmentPeriod())
	_, ok := rates["concurrency"].(core.Replenisher)
	require.False(t, ok)
}

// Full at this very instant, the last tick's tokens do not all have room.
func TestABucketThatIsFullJustNow(t *testing.T) {
	for _, grain := range []int{1, 1<<20 + math.MaxInt>>33} {
		for i := range 7 * 8 {
			synctest.Test(t, func(t *testing.T) {
				limit, tokens := (i/8+1)*grain, (i%8%(i/8+1)+1)*grain
				l := bucket(t, core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: tokens, ReplenishmentPeriod: time.Second})
				for n := grain; n <= limit; n += grain {
					takes(t, l, limit)
					whole := time.Duration((limit+tokens-1)/tokens) * time.Second
					reset, _ := core.ResetAfter.From(rejected(t, l, 1, time.Second))
					require.Equal(t, whole, reset)
					time.Sleep(whole - 1)
					if tokens < limit {
						reset, _ = core.ResetAfter.From(takes(t, l, 1))
						time.Sleep(reset)
						takes(t, l, grain)
						takes(t, l, limit-grain)
						rejected(t, l, limit, whole)
						time.Sleep(whole - 1)
					}
					time.Sleep(1)
					takes(t, l, n) // not looked at before
					if n < limit {
						takes(t, l, limit-n)
					}
					rejected(t, l, limit, whole)
					rejected(t, l, 0, time.Second)
					time.Sleep(whole + 7)
				}
			})
		}
	}
}

func TestABucketIdleForLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 3, ReplenishmentPeriod: time.Second, QueueLimit: 10})
		for idle := time.Duration(1); idle < 1<<59; idle *= 2 {
			takes(t, l, 9)
			time.Sleep(4*time.Second + idle)
			takes(t, l, 10)
			rejected(t, l, 1, time.Second)
			rejected(t, l, 10, 4*time.Second)
			a := queues(t, l, 4)
			time.Sleep(2 * time.Second)
			a.granted(t)
			takes(t, l, 2)
			time.Sleep(4*time.Second + idle)
			idleFor(t, l, idle)
		}
	})
}

// Tokens by the billion: what comes while they are taken is counted all the same.
func TestABucketOfBillions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const g = 1<<20 + math.MaxInt>>33 // 2^30 and some, or what a machine of 32 bits has room for
		l := bucket(t, core.TokenBucketOptions{TokenLimit: 12 * g, TokensPerPeriod: 2*g + 1, ReplenishmentPeriod: time.Second, QueueLimit: 12 * g})
		left := 12 * g
		take := func(n int, reset time.Duration) {
			t.Helper()
			left -= n
			lease := takes(t, l, n)
			got, _ := core.Remaining.From(lease)
			require.Equal(t, left, got)
			after, _ := core.ResetAfter.From(lease)
			require.Equal(t, reset, after)
		}
		take(10*g, 5*time.Second)
		time.Sleep(500 * time.Millisecond)
		take(g, 5500*time.Millisecond)
		time.Sleep(1700 * time.Millisecond)
		left += 2 * (2*g + 1)
		take(g, 3800*time.Millisecond)
		time.Sleep(3800*time.Millisecond - 1)
		left += 3 * (2*g + 1)
		take(g-1, time.Second+1)
		time.Sleep(1)
		available(t, l, 11*g+7) // at the sixth tick
	})
}

// Buckets that take centuries to fill keep count of what was taken, however it was.
func TestABucketThatTakesCenturiesToFill(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for name, o := range map[string]core.TokenBucketOptions{
		"long periods": {TokenLimit: 1 << 30, TokensPerPeriod: 1, ReplenishmentPeriod: century},
		"many tokens":  {TokenLimit: 1 << 30, TokensPerPeriod: 7, ReplenishmentPeriod: 10 * time.Second * 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t, o)
				left := o.TokenLimit
				for _, n := range []int{2, 3, 1 << 29, 1 << 28, 5, 1 << 27} {
					lease := takes(t, l, n)
					left -= n
					remaining, _ := core.Remaining.From(lease)
					require.Equal(t, left, remaining)
					available(t, l, left)
					l.IdleFor() // takes the state back
					available(t, l, left)
				}
			})
		})
	}
}
