// Package redislimit has the limiters of package core for many processes. Their state is on a
// Redis or Valkey server, and all processes together keep the limit:
//
//	limiter, err := redislimit.NewTokenBucket(redislimit.TokenBucketOptions{
//		TokenBucketOptions: core.PerSecond(1000, 100),
//		Shared:             redislimit.Shared{Store: goredis.New(client), Key: "orders"},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer limiter.Close()
//	if lease := limiter.TryAcquire(1); !lease.Acquired() {
//		log.Print(lease.Err())
//	}
//
// [Shared].Key names the limit; each limiter made with that Key takes part in it. Packages
// goredis and rueidis make a [Store] of the client that you have.
//
// A decision is one script, which is atomic. It counts in integers and by the server's clock;
// no process' clock is ever sent. A rejected request takes nothing. A calendar's window is the
// server's too: processes send where windows begin.
//
// A decision takes one round trip to the store at most, and often none: concurrent calls travel
// together, a rejection is remembered until it may be over, and rate limiters take permits in
// advance. If the store does not answer within [Shared].Budget, [Shared].Down decides.
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
// A request is decided by what is remembered (a forecast of when permits come back, a rejection, what
// was prefetched) or gathered for the next call. One call is in flight, bounded in time by a guard
// that keeps away from a store that does not answer. A rejected Acquire waits in a local queue, whose
// head has the only timer. Each script does all operations of a call, in order, at one instant of the
// server's clock, over the keys of one slot, in integers. A window keeps, for each permit, the instant
// at which it comes back. A concurrency lease has an id that its holder chose, so a take whose answer
// was lost can be released.
//
// An adapter makes connections apart from decisions: goredis gives a command a turn, one for each
// ready connection, while goroutines with their own time make new ones; rueidis runs its calls on
// another goroutine until 64 have been answered since the last failure. The tests of this module use
// its adapters, a cycle of modules.
package redislimit
