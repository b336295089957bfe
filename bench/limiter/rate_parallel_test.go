package limiter

import (
	"testing"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/juju/ratelimit"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// sethvargo's limiter is not among them: from many goroutines it refuses one now and then that
// it has a permit for, where two of its windows meet, and rejections must not be timed.
var rateNames = []string{"sluice", "xtime-rate", "juju", "uber", "failsafe-bursty"}

// rateOperations returns, by implementation, a function that takes a permit n times and
// returns how often it was refused.
func rateOperations(r refill) func(b *testing.B) map[string]func(n int) (refused int) {
	return func(b *testing.B) map[string]func(int) int {
		b.Helper()
		ours := newBucket(b, r)
		theirs := rate.NewLimiter(perSecond, r.burst)
		juju := ratelimit.NewBucketWithQuantum(r.period, int64(r.burst), int64(r.tokens))
		ubers := uber.New(perSecond)
		bursty := ratelimiter.NewBursty[any](uint(plenty.tokens), plenty.period)
		count := func(n int, try func() bool) (refused int) {
			for range n {
				if !try() {
					refused++
				}
			}
			return refused
		}
		return map[string]func(int) int{
			"sluice": func(n int) (refused int) {
				for range n {
					if lease := ours.TryAcquire(1); !lease.Acquired() {
						refused++
					}
				}
				return refused
			},
			"xtime-rate": func(n int) (refused int) {
				for range n {
					if !theirs.Allow() {
						refused++
					}
				}
				return refused
			},
			"juju":            func(n int) int { return count(n, func() bool { return juju.TakeAvailable(1) == 1 }) },
			"uber":            func(n int) int { return count(n, func() bool { ubers.Take(); return true }) },
			"failsafe-bursty": func(n int) int { return count(n, bursty.TryAcquirePermit) },
		}
	}
}

// BenchmarkRateTryAllCores is BenchmarkRateTry from as many goroutines as there are cores,
// on one limiter.
func BenchmarkRateTryAllCores(b *testing.B) {
	for _, r := range refills {
		b.Run(r.name, func(b *testing.B) { compareNamed(b, rateNames, rateOperations(r), allCores) })
	}
}
