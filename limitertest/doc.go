// Package limitertest checks limiters: [Run] any implementation of [core.Limiter] against
// the rules that all limiters of Sluice keep, [NoLeaks] that a test has given back every
// lease.
//
// # Run
//
// Run is for the authors of limiters, chains and wrappers, as testing/fstest is for those
// of file systems. It needs the interface alone, and what [Config] says of the limiter;
// the optional interfaces of core, and io.Closer, are checked where they are implemented.
//
//	func TestMyLimiter(t *testing.T) {
//		limitertest.Run(t, limitertest.Config{
//			New:   func() core.Limiter { return mylimiter.New(10) },
//			Limit: 10,
//		})
//	}
//
// Each rule is a subtest that has its name, in a bubble of testing/synctest of its own, so
// instants are checked to the nanosecond and nothing takes real time. A wait that would
// never end is a fault, not a hang. A rule that does not apply is skipped and says why.
//
// Limiters unlike those of core say what they are:
//
//   - One that asks a server: New starts it and Done stops it, in the rule's bubble, over
//     connections in memory (net.Pipe, say; a goroutine that waits for a real socket keeps
//     the bubble's clock from going on). Its server's clock may be coarser: Grain. What it
//     remembers between questions may be old: Lag. Without a server in memory: RealTime.
//   - One whose limit moves by itself: pin it, to Limit.
//   - One that grants anything until it is overloaded: Limit is math.MaxInt, and Gate makes
//     the overload come and go.
//   - One whose limit can be changed: Update. One that may be made under another clock than it
//     is used under, as those of core may: Roams.
//   - A view, bound to a key or a request, is checked as what it is a view of. Interfaces
//     that it has in form alone: Lacks.
//   - Rules that it does not keep, for a reason: Skip.
//
// # NoLeaks
//
// NoLeaks is for those who use limiters: a test whose code forgets a Release fails.
package limitertest
