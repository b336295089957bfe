// Package channel provides a Go channel whose senders are limited by items, by bytes, by rate, or by
// whatever else a [core.Limiter] counts.
//
//	lines, err := channel.Bounded[string](100) // like make(chan string, 100)
//	if err != nil {
//		return err
//	}
//	go func() {
//		defer lines.Close()
//		for _, line := range text {
//			if lines.Send(ctx, line) != nil { // waits while 100 lines are queued
//				return
//			}
//		}
//	}()
//	for line := range lines.All(ctx) {
//		fmt.Println(line)
//	}
//	return errors.Join(ctx.Err(), lines.Err()) // why the loop has ended
//
// Each item in a [LimitedChannel] holds a lease of the channel's limiter. With a concurrency limiter of a
// million permits and items that cost their size, the channel is bounded by memory; with a token bucket,
// by rate; with a chain, by both. Several channels with one limiter share a budget. Only senders are
// limited: the lease is released when the item leaves the channel, received or dropped.
//
// # Which method do I want?
//
// Send and Receive take a context, and replace a select on ctx.Done(). TrySend sheds load: it returns at
// once, with an error that says why. SendBatch and ReceiveBatch are for small items. ReceiveLease limits
// what is in work, not only what is queued. Chan is for use in a select; it is the slowest way to receive,
// and the only one that starts a goroutine.
//
// [Bounded] replaces make(chan T, n), for n of at least 1.
//
// # Cost
//
// An item passes a [Bounded] channel in about the time that a native channel takes, and in less than half
// the time of a native channel with a select on ctx.Done(). A [core.ConcurrencyLimiter] adds an atomic
// operation to a send and another to a receive; any other limiter adds its own grant and release. All
// users of a channel share one mutex. If it is contended, use batches, or several channels with one
// limiter. The measurements are in bench/RESULTS.md.
//
// # Use in tests
//
// In a bubble of testing/synctest all waits use fake time. A channel made outside of all bubbles can be used
// in any number of them.
package channel
