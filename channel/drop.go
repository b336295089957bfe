package channel

import "github.com/sluice-go/sluice/internal/callback"

// drop calls OnDrop with items that no longer hold anything. The items that a call from OnDrop drops are left to
// the call that runs OnDrop, so its calls are not inside each other, however many items each of them drops.
func (c *LimitedChannel[T]) drop(v T, more ...T) {
	if c.onDrop == nil || !c.startReport(v, more) {
		return
	}
	panicked := true
	defer func() {
		if panicked {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reporting--
		}
	}()
	callOnDrop(func() { c.onDrop(v) })
	for {
		for _, v := range more {
			callOnDrop(func() { c.onDrop(v) })
		}
		if more = c.takeLate(); more == nil {
			break
		}
	}
	panicked = false
}

// startReport reports whether the caller is to call OnDrop. If a call of OnDrop is among its callers, it is not,
// and the items are left to the call that runs OnDrop.
func (c *LimitedChannel[T]) startReport(v T, more []T) bool {
	c.mu.Lock()
	maybe := c.reporting > 0
	c.mu.Unlock()
	inside := maybe && onDropCall.Inside()
	c.mu.Lock()
	defer c.mu.Unlock()
	if inside && c.reporting > 0 { // otherwise it is inside the OnDrop of another channel
		c.late = append(append(c.late, v), more...)
		return false
	}
	c.reporting++
	return true
}

// takeLate returns the items that were left to the caller. If there are none, the caller's report has ended.
func (c *LimitedChannel[T]) takeLate() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late
	c.late = nil
	if late == nil {
		c.reporting--
	}
	return late
}

// callOnDrop calls OnDrop. Its frame is the mark by which onDropCall knows.
//
//go:noinline
func callOnDrop(f func()) { f() }

var onDropCall = callback.MarkOf(callOnDrop)
