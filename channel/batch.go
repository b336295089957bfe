package channel

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// batch is the maximum number of items moved under one lock. A larger batch would save little and keep
// other callers out for longer.
const batch = 16

// SendBatch sends the items in order, each as Send does, waiting where it has to. It returns the number of
// items sent. If that is less than len(items), the error is that of the first item that was not sent;
// later items were not tried. Items of other senders may come in between. If items is empty, SendBatch
// returns 0 and ctx.Err(), even if the channel is closed.
func (c *LimitedChannel[T]) SendBatch(ctx context.Context, items []T) (sent int, err error) {
	if len(items) == 0 {
		return 0, ctx.Err()
	}
	var costs [batch]int
	for sent < len(items) {
		part := items[sent:min(sent+batch, len(items))]
		for i := range part {
			costs[i] = c.cost(&part[i])
		}
		for i := 0; i < len(part); {
			put := 0
			if ctx.Err() == nil {
				put = c.putSome(part[i:], costs[i:])
			}
			if put == 0 {
				if err := c.send(ctx, &part[i], costs[i]); err != nil {
					return sent, err
				}
				put = 1
			}
			i += put
			sent += put
		}
	}
	return sent, nil
}

// putSome queues the first of the items under one lock, until one would have to wait, and returns their
// number. It queues none with a limiter that cannot be called under the mutex.
func (c *LimitedChannel[T]) putSome(items []T, costs []int) (put int) {
	if !c.plain {
		return 0
	}
	c.mu.Lock()
	for put < len(items) && c.open.Load() && c.firstLocked() && c.payLocked(costs[put]) {
		c.putLocked(&items[put], c.holdOf(costs[put]))
		put++
	}
	c.unlock()
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
	c.mu.Lock()
	n, leases := c.takeSomeLocked(dst[:min(len(dst), batch)], room[:0])
	c.unlock()
	core.ReleaseAll(leases)
	return n
}

// takeSomeLocked takes as many of the oldest items as dst has room for, and returns their plain permits to the limiter. It
// appends their leases to leases, for the caller to release.
func (c *LimitedChannel[T]) takeSomeLocked(dst []T, leases []core.Lease) (int, []core.Lease) {
	n, permits := 0, 0
	for n < len(dst) {
		h, ok := c.takeReturnedLocked(&dst[n], false)
		if !ok {
			break
		}
		n++
		permits += h.Permits
		if h.Lease.Acquired() {
			leases = append(leases, h.Lease)
		}
	}
	queued := min(len(dst)-n, c.items.Len())
	for range queued {
		c.items.PopTo(&dst[n])
		n++
	}
	held, leases := c.holds.Pop(queued, leases)
	if permits += held; permits > 0 {
		c.limiter.GivePlain(permits)
	}
	if n > 0 {
		c.leftLocked()
	}
	return n, leases
}
