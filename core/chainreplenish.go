package core

import (
	"iter"
	"time"
)

// TryReplenish calls TryReplenish on every limiter that is a [Replenisher], and reports whether
// permits came back to any of them.
func (c *ChainedLimiter) TryReplenish() bool {
	returned := false
	for r := range c.replenishers() {
		returned = r.TryReplenish() || returned
	}
	return returned
}

// Reset resets every limiter that is a [Resetter].
func (c *ChainedLimiter) Reset() {
	for _, l := range c.limiters {
		if r, ok := As[Resetter](l); ok {
			r.Reset()
		}
	}
}

// ReplenishmentPeriod returns the shortest of the limiters' periods, or 0 if there are none.
func (c *ChainedLimiter) ReplenishmentPeriod() time.Duration {
	shortest := time.Duration(0)
	for r := range c.replenishers() {
		if p := r.ReplenishmentPeriod(); shortest == 0 || p < shortest {
			shortest = p
		}
	}
	return shortest
}

// AutoReplenishing reports whether the chain has limiters whose permits come back with time,
// and all of these replenish automatically.
func (c *ChainedLimiter) AutoReplenishing() bool {
	replenishes := false
	for r := range c.replenishers() {
		if !r.AutoReplenishing() {
			return false
		}
		replenishes = true
	}
	return replenishes
}

// replenishers yields the limiters whose permits come back with time. A nested chain without
// any does not count: its period is 0.
func (c *ChainedLimiter) replenishers() iter.Seq[Replenisher] {
	return func(yield func(Replenisher) bool) {
		for _, l := range c.limiters {
			if r, ok := As[Replenisher](l); ok && r.ReplenishmentPeriod() > 0 && !yield(r) {
				return
			}
		}
	}
}
