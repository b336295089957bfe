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
// A Bounded channel costs little more per item than a native one, and less than a native
// one with a select on ctx.Done(): a ctx is only polled until one has to wait. A
// [core.ConcurrencyLimiter] adds two atomic swaps an item; any other limiter its own grant and
// release. A goroutine that finds the channel full or empty lets others run a few times
// before it waits. All of one channel meets at one mutex; where that is too narrow, send and
// receive in batches, or use several channels that share a limiter.
// BenchmarkChannel in bench/channels has the figures, which bench/RESULTS.md lists.
//
// # Locks
//
// A channel has one mutex. It guards the queue and all that wait, and is never held while
// blocking or while calling a user's code: a limiter, Permits, OnDrop. In the modes that
// evict, a core.ConcurrencyLimiter's own mutex may be taken under it; never the other way
// round.
//
// In a bubble of testing/synctest everything works with fake time, as long as the channel
// is made and used in that one bubble.
package channel
