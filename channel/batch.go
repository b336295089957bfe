package channel

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
)

// batch is the maximum number of items moved under one lock. A larger batch would save little and keep
// other callers out for longer.
const batch = 16

// SendBatch sends the items in order, each as Send does, waiting where it has to. It returns the number of
// items sent. If that is less than len(items), the error is that of the first item that was not sent;
// later items were not tried. Items of other senders may come in between. If items is empty, SendBatch
// returns 0 and ctx.Err(), even if the channel is closed.
func (c *LimitedChannel[T]) SendBatch(ctx context.Context, items []T) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	sent := 0
	for sent < len(items) {
		n, err := c.sendSome(ctx, items[sent:min(sent+batch, len(items))])
		sent += n
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// sendSome sends at most batch items. It computes the cost of each once.
func (c *LimitedChannel[T]) sendSome(ctx context.Context, items []T) (int, error) {
	var costs [batch]int
	for i, v := range items {
		costs[i] = c.cost(v)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	sent := 0
	for sent < len(items) {
		sent += c.putSome(items[sent:], costs[sent:])
		if sent == len(items) {
			break
		}
		if err := c.sendSlow(ctx, items[sent], costs[sent]); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// putSome queues the first of the items under one lock, until one would have to wait, and returns their
// number. It queues none with a limiter that cannot be asked under the mutex.
func (c *LimitedChannel[T]) putSome(items []T, costs []int) (put int) {
	if !c.plain {
		return 0
	}
	var d deferredWork[T]
	c.mu.Lock()
	for put < len(items) && c.admitLocked(costs[put], false) == admitted {
		c.putLocked(items[put], c.holdOf(costs[put]), &d)
		put++
	}
	c.mu.Unlock()
	c.finish(&d)
	return put
}

// ReceiveBatch receives up to len(dst) of the oldest items into dst and releases their leases. It waits only
// for the first. It returns the number of items, at least 1, or 0 and an error of Receive. If dst is empty,
// it does not wait, and returns 0 and ctx.Err(), even if the channel is closed.
func (c *LimitedChannel[T]) ReceiveBatch(ctx context.Context, dst []T) (int, error) {
	if err := ctx.Err(); err != nil || len(dst) == 0 {
		return 0, err
	}
	n := c.takeSome(dst)
	if n == 0 {
		v, err := c.Receive(ctx)
		if err != nil {
			return 0, err
		}
		dst[0], n = v, 1
	}
	for n < len(dst) {
		more := c.takeSome(dst[n:])
		if more == 0 {
			break
		}
		n += more
	}
	return n, nil
}

// takeSome takes at most batch items under one lock.
func (c *LimitedChannel[T]) takeSome(dst []T) int {
	var room [batch]core.Lease
	var d deferredWork[T]
	c.mu.Lock()
	n, leases := c.takeSomeLocked(dst[:min(len(dst), batch)], room[:0], &d)
	c.mu.Unlock()
	c.finish(&d)
	core.ReleaseAll(leases)
	return n
}

// takeSomeLocked takes as many of the oldest items as dst has room for, and returns their plain permits to the limiter. It
// appends their leases to leases, for the caller to release.
func (c *LimitedChannel[T]) takeSomeLocked(dst []T, leases []core.Lease, d *deferredWork[T]) (int, []core.Lease) {
	n := 0
	for ; n < len(dst) && len(c.returned) > 0; n++ {
		var h hold.Hold
		dst[n], h = c.takeReturnedLocked(0)
		c.releaseLocked(h, d)
	}
	queued := min(len(dst)-n, c.items.Len())
	for range queued {
		dst[n] = c.items.Pop()
		n++
	}
	permits, leases := c.holds.Pop(queued, leases)
	if permits > 0 {
		c.limiter.GivePlain(permits)
	}
	if n > 0 {
		c.leftLocked(d)
	}
	return n, leases
}
