// Package adaptive provides limiters that adapt to load: a concurrency limit that follows latency,
// and load shedding.
//
//	l, err := adaptive.New(adaptive.Options{QueueLimit: 100})
//	if err != nil {
//		return err
//	}
//	lease, err := l.Acquire(ctx, 1)
//	if err != nil {
//		return err
//	}
//	defer lease.Release() // learns how long the call took, whether it failed or not
//	if err := call(ctx); errors.Is(err, context.DeadlineExceeded) {
//		l.Drop(lease) // only for timeouts: the limit shrinks
//	}
//
// [Concurrency] admits as many requests at once as the server behind it can work on. Use it in front of
// a service whose capacity is unknown or changes. An [Algorithm] finds the limit from how long leases
// are held: [Gradient] by default, or [AIMD].
//
// [Shed] rejects requests while the reading of a sensor of the process or the machine is too high: [CPU],
// [SchedulerLatency], [Heap], or your own.
//
// # How Gradient finds a limit
//
// Gradient compares the mean latency at the limit with the baseline, which is the mean latency without
// queueing. It measures the baseline in trials: from time to time it halves the limit. If the latency
// falls with the limit, requests were queueing. If it does not, it is the server's own latency, and
// becomes the baseline. So a server that becomes slower, for example because its database does, keeps
// its limit, and a server in which requests start to queue gets a smaller one.
//
// A trial lasts for some hundreds of samples. There is one after each unexpected change, and otherwise
// after 1, 2, 4 and at most 32 measurements of the latency. During a trial, Limit and the metadata
// report the lower limit. Trials cost a saturated server about 1% of its throughput once the limit is
// found. While it is being found they cost more: docs/overload.md shows how much.
//
// # Drops
//
// Each drop reduces the limit by 1, and 40 successes return that permit. So drops that have nothing to do
// with load cost little as long as they are rare: in the simulations, 1% of them leave the throughput as it
// is within 2%. If more than a quarter of the limit is taken off at a time, Gradient concludes that the drops
// come from load: the lower limit then stays, and grows again as it did at first. A drop during a trial, or a
// fall of the demand, does not change the limit to which the trial returns. An AIMD cuts the limit by a tenth for such a drop, and
// takes the cut back after as many leases as were in flight: in the simulations 1% of drops leave at least 94% of the throughput.
//
// If the latency of a server grows as soon as more than C requests are in it, and C is 100 or more, the
// limit is within 20% of C after at most 500 samples per unit of C. That holds from below and from
// above, for any demand, and after a change of C or of the service time. It holds for servers that queue
// requests and for servers that share their CPUs among all requests. Simulations show it for constant,
// exponential and bimodal service times with a standard deviation of up to 1.5 times the mean; with
// bimodal and exponential ones, about 2% of the runs miss it. If service times differ much more, for example because 1%
// of the requests take a hundred times as long, the same accuracy needs more samples. If the throughput
// of a server falls once it has more than C requests, the limit is found as fast but varies more: it is
// within 20% on average, and for at least 7 of 10 samples. Below a C of 100 the limit is less exact, up
// to 5 permits or 20% above C: a service that keeps 2 CPUs busy gets a limit of 3 to 5.
//
// While fewer requests are in flight than half of the limit, the limit does not change, and no request is
// rejected.
//
// # CPU-bound work in the limited process
//
// A limit on work that uses the process's own CPUs only has an effect if requests reach the limiter. The
// Go scheduler runs a goroutine for up to 10 ms at a time. A handler that takes its lease and then
// computes for less than that ends before the next request is even read. Requests then wait for a CPU
// instead of a permit, and no limiter sees them. Therefore a handler that only computes should call
// runtime.Gosched once it has its lease, so that requests that arrived in the meantime are queued or
// rejected first. Work that waits for something, or computes for longer, does not need this call. Nor
// does a [Shed] alone: once the reading is too high, it rejects the requests that waited unread. It then
// admits fewer requests at a time, with a lower latency and a lower throughput.
//
// Shedding by [CPU] works if no other process needs the CPUs. On a busy machine the process cannot use
// 90% of them, so nothing is shed, and the latency grows as it does without a limit.
// [SchedulerLatency] measures the queue for a CPU, whichever process uses it, but with a delay. To bound
// the latency on such a machine too, chain the Shed with a core.ConcurrencyLimiter whose limit is a few
// times the number of requests that can run at once.
//
// # Differences from other libraries
//
// The gradient is that of Netflix's concurrency-limits; see [Gradient]. failsafe-go's adaptive limiter
// correlates latency and throughput with the number of requests in flight to distinguish load from slow
// work. Here a trial does that, by changing the load on purpose. failsafe-go also caps the limit at a
// multiple of the requests in flight. Here an idle service keeps its limit, because the next burst may
// need it.
//
// WeChat's DAGOR sheds by the time that requests wait in the process's own queue, not by the time that
// they take, because only waiting shows that this process is overloaded. [SchedulerLatency] measures
// that. DAGOR's priorities of users and calls are left to the caller, who can use one Shed per priority,
// with different thresholds. Google's client-side throttling (Site Reliability Engineering, chapter 21)
// rejects requests randomly in the client, in proportion to the share that the server accepts. It is for
// clients of many servers, and this package does not have it.
package adaptive

// Inside: a Concurrency is a core limiter whose leases carry the time of their grant and report their release.
// One goroutine at a time learns; successes that are released in the meantime are lost, but drops are
// not. internal/adaptive/sampler collects the samples in windows, and keeps the limit that the algorithm
// wants within bounds. Gradient uses a finder (finder.go), which is in one of four phases: it starts; it
// searches, while the limit grows fast; it holds the limit; or it tries half of the limit. Its baseline
// is the mean of up to 10,000 samples of trials, each of which is exact by itself. Half of its standard
// error is added, because the limit would sink without end if the baseline happened to be too low.
//
// A [Shed] compares its last reading with the thresholds, and grants requests itself while it is low.
// Otherwise requests go to the queue of a core limiter, whose limit is 0 until the reading falls.
