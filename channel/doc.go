// Package channel provides a queue like a Go channel whose senders are limited by number of items, by
// bytes, by rate, or by anything else that a [core.Limiter] counts.
//
//	lines, err := channel.Bounded[string](100) // like make(chan string, 100)
//	if err != nil {
//		return err
//	}
//	go func() {
//		defer lines.Close()
//		for ctx.Err() == nil && text.Scan() { // the source watches ctx
//			_ = lines.Send(context.WithoutCancel(ctx), text.Text()) // waits while 100 lines are queued
//		}
//	}()
//	for line := range lines.All(context.WithoutCancel(ctx)) { // until lines is closed and empty
//		fmt.Println(line)
//	}
//
// To lose nothing at shutdown, let the loop that reads the source watch ctx, but give Send and All a context that does
// not end. If the context of a Send ended, the line that was read for it would be lost. If the context of All ended,
// lines would stay in the channel. A receiver that stops early closes the channel, which ends the sends that wait.
// With several senders, close the channel when all of them have returned; see the Drain example.
//
// Each item in a [LimitedChannel] holds a lease of the channel's limiter. If each item costs its size, a concurrency
// limiter of a million permits bounds the channel by memory; a token bucket bounds it by rate; a [core.Chain] of the
// two bounds it by both. Channels that use the same limiter share its permits. Only senders are limited: the lease is
// released when the item is received or dropped.
//
// Options.Capacity also limits the number of queued items. A Send waits for room below it first, and then for permits,
// so a full channel takes nothing from its limiter.
//
// Send waits even if the limiter's QueueLimit is 0, so a concurrency limiter without a queue makes a bounded channel.
// QueueLimit is for servers that shed load; a channel sheds load with TrySend or with an [Overflow] mode. This holds
// for the limiters of packages core, adaptive and redislimit, and for partitions whose limiters come from these
// packages. With a custom limiter, Send calls Acquire once and returns its error, so give that limiter a queue.
//
// A queued item takes its own size, and about 50 bytes more for its lease. If all items hold one permit of a
// concurrency limiter, their leases take no memory. The lease of a chain of two takes more than 400 bytes. If the
// permits are bytes and the items are small, count these bytes too.
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
// Sending and receiving an item through a [Bounded] channel that has room takes 1.03 times as long as with a native
// channel, and 0.29 times as long as with a native channel and a select on ctx.Done(). In a small channel more sends and
// receives have to wait: with a capacity of 1 an item of 4 KiB takes 1.71 times as long.
//
// With a [core.ConcurrencyLimiter], a send and a receive lock the limiter's mutex too. Any other limiter adds its own
// grant and release. All users of a channel share one mutex. If it is contended, use batches, or several channels
// with one limiter. Package bench has the numbers.
//
// # Use in tests
//
// In a testing/synctest bubble all waits use fake time. A channel belongs to the bubble that first uses it.
package channel

// Inside: a send locks the mutex, looks for room, takes permits, puts the item and unlocks. The unlock then
// releases leases, wakes waiting calls and reports dropped items. With a core.ConcurrencyLimiter an item holds
// plain permits, which are taken and returned under the mutex; a lease is made only for ReceiveLease. Of any
// other limiter the permits are asked for without the mutex, while room for the item is reserved.
//
// A send that waits for room is served by whoever makes room. If its permits cannot be taken under the mutex, it is
// woken to call the limiter itself. It leads until it has them: no other send is served or comes in meanwhile, so
// none overtakes it on its way into the limiter's queue.
