// Package redislimit has the limiters of package core for many processes. Their state is on a
// Redis or Valkey server, and all processes together keep the limit:
//
//	limiter, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
//		TokenBucketOptions: core.PerSecond(1000, 100),
//		Shared:             redislimit.StoreOptions{Store: goredis.New(client), Key: "orders"},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer limiter.Close()
//	if lease := limiter.TryAcquire(1); !lease.Acquired() {
//		log.Print(lease.Err())
//	}
//
// [StoreOptions].Key names the limit; each limiter made with that Key takes part in it. Packages
// goredis and rueidis make a [Store] of the client that you have.
//
// A decision is one script, which is atomic. It counts in integers and by the server's clock;
// no process' clock is ever sent. A rejected request takes nothing. A calendar's window is the
// server's too: processes send where windows begin.
//
// A decision takes one round trip to the store at most, and often none: concurrent calls travel
// together, a rejection is remembered until it may be over, and rate limiters take permits in
// advance. If the store does not answer within [StoreOptions].Timeout, [StoreOptions].Unavailable decides.
//
// A concurrency lease is renewed while it is held. If it cannot be, it is lost, and its permits
// go to others; [Context] ends before that.
//
// What is remembered makes a limiter strict, never lax: permits that another process gives back,
// by Settle, Refund or Reset, may be noticed only when a rejection's RetryAfter is over, or a minute
// if a Calendar's window lasts longer.
//
// # Inside
//
// A limiter is an engine (engine.go), which has three components under one mutex:
//
//   - The pipeline (pipeline.go, deal.go) gathers takes, which are requests for permits, and operations, which are all else,
//     for the next call of the store; makes one call at a time; and deals out the answers. wire.go has the numbers.
//   - The queue (queue.go, listener.go) has the waiters of this process: Acquires that the store refused. Its head has the
//     only timer; a listener hears of releases by other processes.
//   - The keeper (keeper.go, lease.go) has the concurrency leases: it renews them, and releases those that nobody knows of.
//     A lease has an id that its holder chose, so a take whose answer was lost can be released.
//
// Before the store is asked, a take is decided by what is remembered (memory.go: a forecast of when permits come back, and a
// rejection; prefetch.go). A breaker (breaker.go), which all limiters on a store share, bounds each call in time, and opens when
// the store does not answer.
//
// Each script does all operations of a call, in order, at one instant of the server's clock, over the keys of one slot, in
// integers. lua/README.md explains what a settlement may give back. A window keeps, for each permit, the instant at which it
// comes back.
//
// Until an adapter is ready, each call has a goroutine of its own and goes on for 10 s, so that a connection is made that takes
// longer than a decision. goredis is ready once 9 commands in a row were answered, rueidis once 64 were. The tests of
// this module use its adapters, a cycle of modules.
package redislimit
