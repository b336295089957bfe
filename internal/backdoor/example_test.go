package backdoor_test

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

func ExampleWays_permits() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
	ways := backdoor.Core[core.Limiter, core.Lease]()

	permits, ok := ways.Permits(limiter)
	fmt.Println(ok)
	fmt.Println(permits.TryTake(1), permits.TryTake(1), permits.TryTake(1))
	permits.Give(1)

	lease := permits.Lease(1) // of the other permit
	lease.Release()
	lease.Release()
	fmt.Println(limiter.Statistics())
	// Output:
	// true
	// true true false
	// 2 of 2 available, 0 queued, 2 granted, 0 rejected
}

// teller prints what it is told.
type teller map[backdoor.Cause]string

func (t teller) Ended(c backdoor.Cause, e backdoor.End) {
	fmt.Println(e.Permits, "of", e.InFlight, t[c])
}

func ExampleWays_watch() {
	limiter, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 2})
	watched, _ := backdoor.Core[core.Limiter, core.Lease]().Watch(limiter, teller{backdoor.Released: "released", backdoor.Dropped: "dropped"})

	first, second := limiter.TryAcquire(1), limiter.TryAcquire(1)
	first.Release()
	watched.End(second, backdoor.Dropped)
	second.Release() // too late
	// Output:
	// 1 of 2 released
	// 1 of 1 dropped
}

func ExampleWays_retire() {
	ways := backdoor.Core[core.Limiter, core.Lease]()
	bucket, _ := core.NewTokenBucket(core.Every(time.Hour, 1))
	fmt.Println(ways.Retire(bucket, 0), bucket.TryAcquire(1).Err())
	// Output: true core: limiter is closed
}
