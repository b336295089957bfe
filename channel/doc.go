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
// Send waits even if the limiter's QueueLimit is 0, so a concurrency limiter without a queue makes a bounded
// channel. QueueLimit is for servers that shed load; a channel sheds load with TrySend or with an [Overflow]
// mode. This holds for the limiters of packages core and adaptive, and for those of package partition that are
// made of them. With any other limiter, such as one of package redislimit, Send calls Acquire once and returns
// its error, so give that limiter a queue.
//
// A queued item takes its own size, and about 50 bytes more for its lease unless all items hold one permit of
// a concurrency limiter; the lease of a chain of two takes about 420 bytes. Count these bytes too if the
// permits are bytes and the items small.
//
// # Which method do I want?
//
// Send and Receive take a context, and replace a select on ctx.Done(). TrySend sheds load: it returns
// immediately, with an error that gives the reason. SendBatch and ReceiveBatch are faster for many small items.
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
// With a [core.ConcurrencyLimiter], a send and a receive lock the limiter's mutex too, and an item takes about one
// and a half to three times as long as in a native channel; any other limiter adds its own grant and release. All users of a channel share one mutex. If it is contended, use batches, or
// several channels with one limiter. Package bench compares the two.
//
// # Use in tests
//
// In a testing/synctest bubble all waits use fake time. A channel belongs to the bubble that first uses it.
package channel

// Inside: a send takes permits, locks the mutex, puts the item and unlocks. Afterwards, without the mutex, it
// releases leases, wakes waiting calls and reports dropped items. With a core.ConcurrencyLimiter an item holds
// plain permits, and a lease is made only for ReceiveLease. In the drop modes these permits are taken and
// returned under the channel's mutex, so each permit is available, held by a queued item, or held outside of
// the channel.
