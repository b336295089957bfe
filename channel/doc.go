// Package channel is a Go channel whose senders are limited: by items, by bytes, by rate,
// by whatever a [core.Limiter] counts.
//
// Each item in a [LimitedChannel] holds a lease. A concurrency limiter of a million
// permits and items that cost their size make a channel bounded by memory; a token bucket
// makes one bounded by rate; a chain is both; one limiter in several channels is a budget
// that they share. Only the producers' side is limited: the lease is released when the
// item leaves, received or not.
//
// # Which method do I want?
//
// Send and Receive with a context, as a channel with select and ctx.Done() would be used.
// TrySend to shed load: it says why it refused. ReceiveBatch where items are small and
// many. ReceiveLease to limit what is in flight, not only what is queued. Chan where a
// select is needed; it is the slowest way to receive, and the only one with a goroutine.
//
// [Bounded] replaces make(chan T, n). It is not for n = 0: there is no rendezvous.
//
// # Cost
//
// A Bounded channel costs about as much per item as a native one, and a third to a half of
// a native one with a select on ctx.Done(): a ctx is looked at only when one has to wait. A
// limiter adds its own grant and release, which makes it about a native channel with
// select. Who finds the channel full or empty lets others run a few times before he waits.
// All of one channel meets at one mutex; where that is too narrow, use several channels
// that share a limiter. See BenchmarkChannel.
//
// # Locks
//
// A channel has one mutex. It guards the queue and all who wait, and is never held while
// blocking or while calling anybody's code: a limiter, Permits, OnDrop. A closing's mutex
// guards its set of waits only. Neither is taken under the other.
//
// In a bubble of testing/synctest everything works with fake time, as long as the channel
// is made and used in that one bubble.
package channel
