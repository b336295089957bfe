// Package redislimit has the limiters of package core for many processes. Their state is on a
// Redis or Valkey server, and all processes together keep the limit:
//
//	limiter, err := redislimit.New(core.PerSecond(1000, 100), redislimit.Options{
//		Store: goredis.New(client), Key: "orders",
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer limiter.Close()
//	if lease := limiter.TryAcquire(1); !lease.Acquired() {
//		log.Print(lease.Err())
//	}
//
// [Options].Key names the limit. All limiters with the same Key share it. Packages goredis and
// rueidis make a [Store] from your client. [Watch] reports outages.
//
// Each decision is one script, which is atomic. It counts in integers and uses the server's clock;
// processes never send their own clocks. A rejected request takes nothing. The server's clock also
// decides the current calendar window: processes send where calendar windows start.
//
// A decision takes at most one round trip to the store, and often none. Concurrent requests share a
// call, a rejection is remembered until its RetryAfter is over, and rate limiters prefetch permits.
// If the store does not reply within [Options].Timeout, [Options].Unavailable decides.
//
// A concurrency lease is renewed while it is held. If it cannot be renewed, it is lost, and other
// processes may take its permits. [Context] ends before that.
//
// The memory of a process can delay a grant but never allows an extra one. If another process
// returns permits, by Settle, Refund or Reset, this process may notice only when the RetryAfter of a
// rejection is over, and after a minute at the latest.
package redislimit

// Inside: a limiter has three layers under one mutex:
//
//   - The client (client.go, wire.go, breaker.go) collects operations for the next call of the store, makes calls, and distributes the
//     results. It has the Timeout and the breaker, which all limiters on a node of the store share, and does not know that callers wait.
//   - The cache (cache.go, forecast.go) is a value: it remembers the replies, decides a request here, rejects it, or says that the store
//     has to be asked.
//   - The limiter (engine.go, request.go, waiters.go, tickets.go, reserve.go) asks the cache, then the client. An Acquire that the store
//     refused waits in a machine of core (package internal/machine), whose account is what the store said. Waiters of a rate have tickets:
//     permits that are the process's from an instant on. The machine says whose they are. A listener subscribes to releases by
//     other processes while callers wait for a concurrency limit.
//
// Beside them, the keeper (keeper.go, lease.go) holds the concurrency leases. It renews them, and releases leases that may have been
// granted although the reply was lost. It can do so because the holder chooses a lease's id.
//
// A script performs all operations of a call, in order, at one time of the server's clock, over the keys of one slot, in
// integers. lua/README.md explains how much a settlement may return. A window stores the times at which permits are returned.
//
// Until an adapter is ready, each call has its own goroutine and continues for 10 s, so that a connection can be made that takes
// longer than a decision. goredis is ready after 9 replies in a row, rueidis after 64. The tests of this module use its
// adapters, so the modules form a cycle.
