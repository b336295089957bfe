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
// no process' clock is ever sent. A rejected request takes nothing.
//
// A decision takes one round trip to the store at most, and often none: concurrent calls travel
// together, a rejection is remembered until it may be over, and rate limiters take permits in
// advance. If the store does not answer within [Shared].Budget, [Shared].Down decides.
//
// A concurrency lease is renewed while it is held. If it cannot be, it is lost, and its permits
// go to others; [Context] ends before that.
//
// What is remembered makes a limiter strict, never lax: permits that another process gives back,
// by Settle, Refund or Reset, may be noticed only when a rejection's RetryAfter is over.
package redislimit
