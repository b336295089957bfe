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
// # NoLeaks
//
// NoLeaks is for those who use limiters: whoever forgets a Release finds out in his test.
package limitertest
