package channel

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// batch is how many items pass under one lock. More would save little, and keep others out for longer.
const batch = 16

// SendBatch sends the items in order, each as Send does: it waits for each. It returns the number of items
// sent. If that is not all, the error is that of the first item that was not sent; those after it were not
// tried. Items of other senders may come between. Without items, SendBatch returns 0 and ctx.Err().
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

// sendSome sends at most batch items. Each is asked for its cost once.
func (c *LimitedChannel[T]) sendSome(ctx context.Context, items []T) (int, error) {
	var costs [batch]int
	for i, v := range items {
		costs[i] = c.cost(v)
	}
	sent := 0
	for sent < len(items) {
		sent += c.putSome(items[sent:], costs[sent:])
		if sent == len(items) {
			break
		}
		if err := c.sendCosting(ctx, items[sent], costs[sent]); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// putSome queues the first of the items under one lock, as many as need not wait and whose limiter may be
// asked under it. It returns their number.
func (c *LimitedChannel[T]) putSome(items []T, costs []int) (put int) {
	if c.limiter != nil && c.plain == nil {
		return 0
	}
	var a after[T]
	spent := 0 // by items for which receivers were waiting
	c.mu.Lock()
	for put < len(items) && c.open.Load() && c.roomLocked() {
		n := 0
		if c.plain != nil {
			if n = costs[put]; n <= 0 || !c.plain.TryTake(n) {
				break
			}
		}
		c.putLocked(items[put], hold{permits: n}, &a)
		spent += a.spent.permits
		a.spent = hold{}
		put++
	}
	a.spent.permits = spent
	c.mu.Unlock()
	c.finish(&a)
	return put
}

// ReceiveBatch takes the oldest items into dst, as many as are there and fit, and releases their leases. It
// waits for the first only. It returns their number, at least 1, or 0 and an error, which is that of
// Receive. With an empty dst it does not wait, and returns 0 and ctx.Err().
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
func (c *LimitedChannel[T]) takeSome(dst []T) (n int) {
	var leases [batch]core.Lease
	var all hold
	var a after[T]
	c.mu.Lock()
	for n < min(len(dst), batch) {
		v, h, ok := c.oldestLocked()
		if !ok {
			break
		}
		dst[n], leases[n] = v, h.lease
		all.permits += h.permits // of one limiter, whose limit is an int
		n++
	}
	c.spendLocked(all, &a)
	if n > 0 {
		c.leftLocked(&a)
	}
	c.mu.Unlock()
	c.finishAll(&a, leases[:n])
	return n
}
