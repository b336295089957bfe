// Package limitertest tests limiters: [Run] checks any implementation of [core.Limiter]
// against the rules that all limiters of Sluice keep, and [NoLeaks] checks that a test has
// released every lease.
//
// # Run
//
// Run is for authors of limiters, chains and wrappers, as testing/fstest is for authors of
// file systems:
//
//	func TestMyLimiter(t *testing.T) {
//		limitertest.Run(t, limitertest.Config{
//			New:   func() core.Limiter { return mylimiter.New(10) },
//			Limit: 10,
//		})
//	}
//
// A limiter needs no more than the interface. The optional interfaces of core, and io.Closer,
// are checked if it implements them. Refunds and settlements are checked if its leases can be settled: those of
// [core.GrantFrom] can, and those of [core.Grant] only be refunded.
//
// Most rules are checked by plays: random sequences of calls, with a model beside the limiter
// that predicts by plain arithmetic which requests are granted, rejected or wait, and what is
// available. The first difference ends the play and fails the test.
//
// Each part of the rules is a subtest: "requests", "queue", "refunds" and so on. The plays of a
// subtest also make the calls of those before it, so the first subtest that fails says what is
// broken. All run in testing/synctest bubbles: times are checked to the nanosecond, and waiting
// takes no real time. A wait that never ends is reported as a failure; it does not hang the test.
// A part that does not apply to the limiter is skipped, and the skip message says why.
//
// A limiter that differs from one that rejects at its limit, and whose leases hold permits until
// they are released, describes that in its [Config]:
//
//   - Requests may wait: set QueueLimit, and QueueOrder if they are not served oldest first.
//   - Its permits come back with time: set Refill.
//   - Its limit can be changed: set Update. If it changes by itself, fix it at Limit.
//   - It breaks a rule on purpose, or has methods of an optional interface that do nothing, as a
//     view of another limiter may: set Skip.
//
// A view that is bound to a key or a request is tested like the limiter behind it.
//
// # Servers and load shedders
//
// If the limiter asks a server, start the server in New, stop it in Done, and connect to it in memory,
// with net.Pipe for example. Both functions run in the test's bubble, in which a goroutine that waits
// for a real socket stops the clock. If the server's clock is coarser than a nanosecond, set Grain.
//
// If the limiter grants everything until it is overloaded, set Limit to math.MaxInt, and Gate to a
// function that starts and ends an overload.
//
// # NoLeaks
//
// NoLeaks is for users of limiters. It fails a test whose code forgets to release a lease.
package limitertest
