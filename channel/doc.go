// Package channel provides a queue like a Go channel whose senders are limited by number of items, by
// bytes, by rate, or by anything else that a [core.Limiter] counts.
//
//	lines, err := channel.Bounded[string](100) // like make(chan string, 100)
//	if err != nil {
//		return err
//	}
//	go func() {
//		defer lines.Close()
//		for _, line := range text {
//			if lines.Send(ctx, line) != nil { // waits while 100 lines are queued; ends with ctx
//				return
//			}
//		}
//	}()
//	for line := range lines.All(context.WithoutCancel(ctx)) { // until lines is closed and empty
//		fmt.Println(line)
//	}
//
// The sender watches ctx and the receiver does not, so every line that was sent is received, even if ctx
// ends. With several senders, close the channel when all of them have returned; see the Drain example.
//
// Each item in a [LimitedChannel] holds a lease of the channel's limiter. A concurrency limiter of a
// million permits, with items that cost their size, bounds the channel by memory; a token bucket bounds it
// by rate; a [core.Chain] of the two bounds it by both. Channels that use the same limiter share its
// permits. Only senders are limited: the lease is released when the item is received or dropped.
//
// Sends wait whatever the limiter's QueueLimit is: a channel over a concurrency limiter whose queue is disabled
// is a bounded channel. QueueLimit is for servers that shed load; a channel sheds load with TrySend or with an
// [Overflow] mode. A limiter that is not one of package core is asked by one Acquire, and its rejection is the
// answer.
//
// A queued item takes its own size, and about 50 bytes more for its lease unless all items hold one permit of
// a concurrency limiter; the lease of a chain of two takes about 420 bytes. Count them in if the permits
// are bytes and the items small.
//
// # Which method do I want?
//
// Send and Receive take a context, and replace a select on ctx.Done(). TrySend sheds load: it returns at
// once, with an error that gives the reason. SendBatch and ReceiveBatch are faster for many small items.
// ReceiveLease keeps an item's permits until its work is done, so that the limiter bounds the items being
// processed as well as those queued. Chan is for use in a select; it is the slowest way to receive, and
// the only method that starts a goroutine.
//
// [Bounded] replaces make(chan T, n) for n >= 1.
//
// # Cost
//
// An item passes a [Bounded] channel of 64 items or more in about the time that a native channel takes, and
// in half the time of a native channel with a select on ctx.Done(). In a smaller channel more sends and receives
// have to wait: with a capacity of 16 an item takes one and a half times as long as in a native channel, with 4
// twice as long, and with 1 two to three times, which is about what that select costs a native channel.
//
// A [core.ConcurrencyLimiter] adds an atomic operation to each send and each receive; any other limiter adds
// its own grant and release. All users of a channel share one mutex. If it is contended, use batches, or
// several channels with one limiter. Package bench compares the two.
//
// # Use in tests
//
// In a testing/synctest bubble all waits use fake time. A channel belongs to the bubble that first uses it.
//
// # Inside
//
// A send takes permits, locks, puts the item and unlocks. What remains to be done then (a lease to
// release, waiting calls to wake, an item to report) is done without the mutex. With a
// [core.ConcurrencyLimiter] an item holds plain permits, and a lease is made only for ReceiveLease. In
// the drop modes these permits are taken and returned under the channel's mutex, so each is
// available, queued, or not the channel's.
package channel
