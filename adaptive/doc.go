// Package adaptive has limiters that find their limits themselves.
//
// [Concurrency] admits as many at once as the server behind it can work on. An [Algorithm]
// learns that from its leases: [Gradient], unless there is a reason for [Vegas] or [AIMD].
// Put it in front of a service whose capacity is not known, or changes.
//
// [Shed] refuses while a probe of the process or the machine reads too much: [CPU],
// [SchedulerLatency], [Heap], or one of your own.
//
// # How Gradient and Vegas find a limit
//
// They compare the mean latency at the limit with the mean latency without load. Both are
// measured: now and then the limit is lowered by a fifth, for some hundreds of samples, to
// see what latency there is then. So Limit and the metadata show a dip, one in about seven
// windows, and the throughput of a saturated server is some percent below what it could be. That
// is the price of a latency without load which load does not raise.
//
// With a server whose latency grows once more than C requests are in it, C being 100 or
// more, the limit is within a fifth of C after 500 samples per unit of C at most, from below
// and from above, whatever the demand; and as soon after a change of C. That is shown for
// service times that are constant, exponential and bimodal, up to a standard deviation of
// one and a half times the mean. If they differ much more, as when one request in a hundred
// takes a hundred times as long, some percent of exactness needs more samples than that. With
// a server whose throughput falls once it has more than C, the limit comes as soon, and swings
// more: it is within a fifth on average, and for 7 samples in 10 at least.
// Below a C of 100 the limit is less exact: it is up to 4 permits above C, or a fifth. So a
// service that keeps 2 processors busy gets a limit of 3 to 5.
//
// Without load, below half of the limit, nothing is changed and nobody is refused.
//
// # Work of the limited process itself
//
// A limit before the process' own processors works only if requests come as far as the limiter.
// The scheduler of Go runs a goroutine for up to 10 ms at a stretch: a handler that takes its
// lease and then computes for less runs to its end before the next request is even read. So
// the requests wait for a processor instead of a permit, unlimited and unseen. Let a handler
// that only computes call runtime.Gosched once it has its lease; then those who came meanwhile
// are queued or refused first. Work that waits for something, or computes for longer, needs no
// such call. A [Shed] alone can do without: those that wait unread are refused once the reading
// is above, so fewer are admitted in each spell of grants, with less latency and less done.
//
// To shed by [CPU] works while the process has its processors to itself. On a machine that
// others keep busy it cannot use nine tenths of them, so nothing is shed, and the latency
// grows as without a limit. [SchedulerLatency] is the length of the queue for a processor,
// whoever has it, but it is late. A chain of the Shed and a limiter that counts, of some times
// what can be under way at once, bounds the latency on such a machine too.
//
// # What it takes from the field, and what it leaves
//
// From Netflix' concurrency-limits come the gradient and the queue estimate; see [Gradient]
// and [Vegas]. failsafe-go's adaptive limiter correlates latency and throughput with what is
// in flight to tell load from slow work; here a probe tells them apart, as it changes the
// load on purpose. It also caps the limit at a multiple of what is in flight; here the limit
// of an idle service stays what it was, as the next burst may need it.
//
// WeChat's DAGOR sheds by the time that requests wait in the process' own queue, not by the
// time that they take, since only the former is overload of this process: that is
// [SchedulerLatency]. Its priorities of users and calls are left to the caller, who can have
// a Shed for each with its own threshold. Google's client-side throttling (Site Reliability
// Engineering, chapter 21) refuses at random in the client, by the share that the server
// accepts; that is for clients of many servers, and is left.
package adaptive
