// Package core contains the limiters of Sluice and the leases that they grant.
//
//	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20)) // 100 a second, bursts of 20
//	if err != nil {
//		return err
//	}
//	lease, err := limiter.Acquire(ctx, 1) // waits, because the queue of PerSecond is unbounded
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// A [Limiter] decides whether an operation may proceed and grants permits as a [Lease]. There are
// four main limiters: [ConcurrencyLimiter] bounds how many permits are held at a time;
// [TokenBucket], [FixedWindow] and [SlidingWindow] bound how many are taken in a period of time.
// [Chain] takes the same permits from several limiters, all or nothing.
//
// # Which method do I want?
//
// TryAcquire does not wait for permits: use it in servers that shed load. Acquire waits if the
// limiter has a queue: use it in clients and workers that have to get through. Both return a
// Lease. Release it when the work is done. For the three rate limiters Release does nothing, so
// the same code runs under any limiter. Refund undoes a grant that was not used.
//
// # Does Acquire wait?
//
// If the permits are not available, Acquire waits in the limiter's queue. QueueLimit is the most
// permits that may wait there. The default, 0, means that Acquire rejects such a request instead.
// [PerSecond], [Every], [Rate] and ioreader.PerSecond set an unbounded queue.
//
//	call                                               waits for permits
//	TryAcquire, TrySend, TrySubmit                     never
//	Acquire                                            if the queue has room
//	partition, resilience, clients of HTTP and gRPC    as Acquire: if the queue has room
//	servers of HTTP and gRPC                           if the policy has a MaxWait and the queue has room
//	channel (without a drop mode), pipe, ioreader,     yes, even if QueueLimit is 0
//	worker, Semaphore
//
// A custom limiter waits only if its queue has room, even in a channel or a pool.
//
// # What all limiters share
//
// All limiters are safe for concurrent use. A grant that does not wait allocates nothing.
// Limiters run no background goroutines. A limiter has a timer only while requests wait, and then
// only one, for the request that is served next. Time is monotonic, so changes to the wall clock
// have no effect, except on a [FixedWindow] with a [Calendar]. Everything works in
// testing/synctest bubbles.
//
// After Close, requests fail with [ErrClosed]. Leases can still be released, refunded and
// settled, and the methods that report a limiter's state continue to work. A limiter that was not
// made by its constructor also fails every request with ErrClosed.
//
// The design is that of .NET's System.Threading.RateLimiting. Sluice adds leases that cannot be
// released twice, a RetryAfter on rejections, refunds, and limits that you can change while they
// are in use.
package core
