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
// [Concurrency] admits as many requests at once as the server behind it can work on. An
// [Algorithm] finds that number from how long leases are held: [Gradient] by default, or [AIMD]. Put a Concurrency in front of a service whose capacity is not known, or
// changes.
//
// [Shed] rejects requests while a sensor of the process or the machine reads too much: [CPU],
// [SchedulerLatency], [Heap], or one of your own.
//
// # How Gradient finds a limit
//
// It compares the mean latency at the limit with the baseline, the mean latency without queueing.
// The baseline is measured in trials: now and then the limit is halved. If the latency falls with
// it, requests were queueing; if it does not, the latency is the server's own, and is the
// baseline from then on. A server that becomes slower, as when its database does, keeps its
// limit; a server in which requests begin to queue gets a smaller one.
//
// A trial lasts for some hundreds of samples. There is one after each surprise, and otherwise after
// 1, 2, 4 and at most 32 measurements of the latency. During a trial Limit and the metadata report
// the lower limit. Trials cost a saturated server about a hundredth of its throughput, and more
// while the limit is being found.
//
// With a server whose latency grows once more than C requests are in it, C being 100 or
// more, the limit is within a fifth of C after 500 samples per unit of C at most, from below
// and from above, whatever the demand; and as soon after a change of C or of the service time. That
// holds for servers that queue requests and for servers that share their processors among all. It
// is shown for service times that are constant, exponential and bimodal, up to a standard deviation
// of one and a half times the mean; with bimodal ones, about two runs in a hundred miss it. If service
// times differ much more, as when one request in a hundred takes a hundred times as long, an
// accuracy of some percent needs more samples than that. With a server whose throughput falls once
// it has more than C, the limit is found as soon and varies more: it is within a fifth on average,
// and for at least 7 samples in 10. Below a C of 100 the limit is less exact, up to 5 permits or a fifth
// above C: a service that keeps 2 processors busy gets a limit of 3 to 5.
//
// While fewer requests are in flight than half of the limit, the limit does not change and nothing
// is rejected.
//
// # Work of the limited process itself
//
// A limit on work that uses the process' own processors has an effect only if requests reach the
// limiter. The scheduler of Go runs a goroutine for up to 10 ms at a stretch: a handler that takes
// its lease and then computes for less ends before the next request is even read. The requests then
// wait for a processor instead of a permit, and no limit counts them. A handler that only computes
// should call runtime.Gosched once it has its lease; then requests that arrived in the meantime are
// queued or rejected first. Work that waits for something, or computes for longer, needs no such
// call. Nor does a [Shed] alone: requests that wait unread are rejected once the reading is too
// high. It then admits fewer at a time, with a lower latency and a lower throughput.
//
// Shedding by [CPU] works while the process has its processors to itself. On a machine that
// others keep busy it cannot use nine tenths of them, so nothing is shed, and the latency
// grows as without a limit. [SchedulerLatency] is the length of the queue for a processor,
// whichever process has it, but it is late. A chain of the Shed and a core.ConcurrencyLimiter,
// whose limit is a few times what can run at once, bounds the latency on such a machine too.
//
// # What it takes from other libraries, and what it leaves out
//
// The gradient is that of Netflix's concurrency-limits; see [Gradient]. failsafe-go's adaptive limiter correlates latency and throughput with what is
// in flight to distinguish load from slow work; here a trial does, as it changes the
// load on purpose. It also caps the limit at a multiple of what is in flight; here the limit
// of an idle service stays what it was, as the next burst may need it.
//
// WeChat's DAGOR sheds by the time that requests wait in the process' own queue, not by the
// time that they take, since only waiting is overload of this process: that is
// [SchedulerLatency]. Its priorities of users and calls are left to the caller, who can have
// a Shed for each with its own threshold. Google's client-side throttling (Site Reliability
// Engineering, chapter 21) rejects at random in the client, by the share that the server
// accepts; that is for clients of many servers, and is left out.
//
// # Inside
//
// A Concurrency is a core limiter whose leases carry the instant of their grant and report their
// release. One goroutine at a time learns; successes that are released in the meantime are lost, drops
// are not. internal/adaptive/sampler makes windows of the samples, and keeps the limit that the
// algorithm wants within bounds. Gradient is made of a finder (finder.go), which is in one of four
// phases: it starts, it searches while the limit grows fast, it holds the limit, or half of the limit is on
// trial. Its baseline is the mean of up to 10,000 samples of trials, each trial exact by itself, and half
// of its standard error is added: with a baseline that is too low by chance the limit would sink without
// end.
//
// A [Shed] compares its last reading with the thresholds, and grants by itself while that is low. Otherwise
// requests go to a core limiter's queue, whose limit is 0 until the reading falls.
package adaptive
