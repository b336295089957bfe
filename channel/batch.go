package channel

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// batch is how many items pass under one lock. More would save little, and keep others out
// for longer; and as many leases lie on the stack.
const batch = 16

// SendBatch sends the items one after the other, each as Send does: it waits for each. It
// returns how many were sent, and if not all, the error of the one that was not; those
// after it were not tried. Nothing comes between the items of a sender, but those of others
// may. No items are 0 with ctx.Err().
func (c *LimitedChannel[T]) SendBatch(ctx context.Context, items []T) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := 0
	for n < len(items) {
		if n += c.putSome(items[n:]); n == len(items) {
			break
		}
		if err := c.Send(ctx, items[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// putSome queues the first of the items, as far as they need not wait and it costs less
// than one by one; at most batch.
func (c *LimitedChannel[T]) putSome(items []T) int {
	if c.evicts || c.limiter != nil && c.plain == nil {
		return 0
	}
	items = items[:min(len(items), batch)]
	var taken [batch]int
	n := len(items)
	if c.plain != nil {
		n = c.takeForSome(items, &taken)
	}
	var woken *waiter[T]
	put, spent := 0, 0
	c.mu.Lock()
	for put < n && c.open.Load() && c.roomLocked() {
		w, over := c.putLocked(items[put], hold{permits: taken[put]})
		woken = join(w, woken)
		if over {
			spent += taken[put]
		}
		put++
	}
	c.mu.Unlock()
	for _, permits := range taken[put:n] {
		spent += permits
	}
	c.releaseAndWake(hold{permits: spent}, woken)
	return put
}

// takeForSome takes plain permits for the first items, for as many as they are there.
func (c *LimitedChannel[T]) takeForSome(items []T, taken *[batch]int) int {
	for i, v := range items {
		n, err := c.cost(v)
		if err != nil || n == 0 || !c.plain.TryTake(n) {
			return i
		}
		taken[i] = n
	}
	return len(items)
}

// ReceiveBatch takes the oldest items into dst, as many as are there and fit, and releases
// their leases. It waits for the first only. It returns how many, at least one; 0 with an
// error, as Receive has them. An empty dst takes nothing and does not wait: it is 0 with
// ctx.Err().
func (c *LimitedChannel[T]) ReceiveBatch(ctx context.Context, dst []T) (int, error) {
	if len(dst) == 0 {
		return 0, ctx.Err()
	}
	v, err := c.Receive(ctx)
	if err != nil {
		return 0, err
	}
	dst[0] = v
	n := 1
	for n < len(dst) {
		taken := c.takeSome(dst[n:])
		n += taken
		if taken < batch {
			break
		}
	}
	return n, nil
}

// takeSome takes at most batch items.
func (c *LimitedChannel[T]) takeSome(dst []T) int {
	dst = dst[:min(len(dst), batch)]
	if c.limiter != nil && c.plain == nil {
		var leases [batch]core.Lease
		return c.takeSomeLeased(dst, &leases)
	}
	var all hold
	n := 0
	c.mu.Lock()
	for ; n < len(dst); n++ {
		v, h, ok := c.oldestLocked()
		if !ok {
			break
		}
		dst[n] = v
		all.permits += h.permits // of one limiter, whose limit is an int
	}
	woken := c.leftSomeLocked(n)
	all = c.leavingLocked(all)
	c.mu.Unlock()
	c.settle(all, woken)
	return n
}

func (c *LimitedChannel[T]) takeSomeLeased(dst []T, leases *[batch]core.Lease) int {
	n := 0
	c.mu.Lock()
	for ; n < len(dst); n++ {
		v, h, ok := c.oldestLocked()
		if !ok {
			break
		}
		dst[n], leases[n] = v, h.lease
	}
	woken := c.leftSomeLocked(n)
	c.leavingLocked(hold{})
	c.mu.Unlock()
	c.settleAll(hold{}, leases[:n], woken)
	return n
}

// leftSomeLocked is leftLocked, if any items have left.
func (c *LimitedChannel[T]) leftSomeLocked(n int) *waiter[T] {
	if n == 0 {
		return nil
	}
	return c.leftLocked()
}
