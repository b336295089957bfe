// Package core contains the limiters of Sluice and the leases that they grant.
//
//	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20)) // 100 a second, 20 at once
//	if err != nil {
//		return err
//	}
//	lease, err := limiter.Acquire(ctx, 1)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// A [Limiter] decides whether an operation may proceed and grants permits as a [Lease]. There
// are four main limiters: [ConcurrencyLimiter] bounds how many permits are held at once;
// [TokenBucket], [FixedWindow] and [SlidingWindow] bound how many are taken in a period of
// time. [Chain] asks several limiters for the same permits, all or nothing.
//
// # Which method do I want?
//
// TryAcquire answers now and never blocks: use it in servers that shed load. Acquire waits in
// the limiter's bounded queue: use it in clients and workers that have to get through. Both
// return a Lease. Release it when the work is done; for the three rate limiters Release is a
// no-op, so the same code runs under any limiter. Refund undoes a grant that was not used.
//
// # What all limiters share
//
// All limiters are safe for concurrent use. A grant that does not have to wait
// allocates nothing. A limiter without waiters has no goroutine and no
// timer; a limiter with waiters has at most one timer, set to the instant at which the head of
// its queue can be served. Time is read from the monotonic clock, so changes of the wall clock
// do not matter, except to a [FixedWindow] with a [Calendar]. Everything works in a bubble of
// testing/synctest.
//
// The design is that of .NET's System.Threading.RateLimiting, with leases that cannot be
// released twice, an exact RetryAfter, refunds, and limits that can change while in use.
package core
