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
	var next costs
	for n < len(items) {
		if n += c.putSome(items[n:], &next); n == len(items) {
			break
		}
		if err := c.sendNext(ctx, items[n], &next); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// costs are those of the items of a batch that come next, as far as they are known: each is
// asked for once.
type costs struct {
	of    [batch]int
	known int
}

// pass forgets those of n items.
func (k *costs) pass(n int) {
	copy(k.of[:], k.of[n:k.known])
	k.known -= n
}

// sendNext is Send for the next item of a batch.
func (c *LimitedChannel[T]) sendNext(ctx context.Context, v T, next *costs) error {
	if c.permits == nil || next.known == 0 {
		next.known = 0
		return c.Send(ctx, v)
	}
	n := next.of[0]
	next.pass(1)
	return c.sendCosting(ctx, v, n)
}

// putSome queues the first of the items, as far as they need not wait and it costs less
// than one by one; at most batch.
func (c *LimitedChannel[T]) putSome(items []T, next *costs) int {
	if c.evicts || c.limiter != nil && c.plain == nil {
		return 0
	}
	items = items[:min(len(items), batch)]
	n := len(items)
	if c.plain != nil {
		n = c.takeForSome(items, next)
	}
	var woken *waiter[T]
	put, spent := 0, 0
	c.mu.Lock()
	for put < n && c.open.Load() && c.roomLocked() {
		w, over := c.putLocked(items[put], hold{permits: next.of[put]})
		woken = join(w, woken)
		if over {
			spent += next.of[put]
		}
		put++
	}
	c.mu.Unlock()
	for _, permits := range next.of[put:n] {
		spent += permits
	}
	if c.plain != nil {
		next.pass(put)
	}
	c.releaseAndWake(hold{permits: spent}, woken)
	return put
}

// takeForSome takes plain permits for the first items, for as many as they are there.
func (c *LimitedChannel[T]) takeForSome(items []T, next *costs) (n int) {
	whole := false
	defer func() {
		if !whole { // Permits panicked
			for _, permits := range next.of[:n] {
				c.plain.Give(permits)
			}
		}
	}()
	for ; n < len(items); n++ {
		if n == next.known {
			next.of[n] = c.cost(items[n])
			next.known++
		}
		if next.of[n] <= 0 || !c.plain.TryTake(next.of[n]) {
			break
		}
	}
	whole = true
	return n
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
