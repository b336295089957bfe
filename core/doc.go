// Package core holds the limiters of Sluice and the lease they hand out.
//
// A [Limiter] decides whether an operation may proceed and hands out permits as a
// [Lease]. There are four: [ConcurrencyLimiter] bounds how many permits are held at
// once, [TokenBucket], [FixedWindow] and [SlidingWindow] bound how many are taken in
// a time. [Chain] asks several for the same permits, all or nothing.
//
// # Which method do I want?
//
// TryAcquire answers now and never blocks: for servers that shed load. Acquire waits
// in the limiter's bounded queue: for clients and workers that have to get through.
// Both hand out a Lease. Release it when the work is done; for the three rate limiters
// that is a no-op, so the same code runs under any limiter. A grant that was not used
// can be undone with Refund.
//
// # What they share
//
// All limiters are safe for concurrent use. A grant that need not wait is a few atomic
// operations and allocates nothing. A limiter that nobody waits on has no goroutine and
// no timer; one that somebody waits on has one timer at most, set to the instant at
// which the head of its queue can be served. Time is read from the monotonic clock, so
// changes of the wall clock do not matter, and everything works in a bubble of
// testing/synctest.
//
// The design is that of .NET's System.Threading.RateLimiting, with leases that cannot
// be released twice, an exact RetryAfter, refunds, and limits that change while running.
package core
