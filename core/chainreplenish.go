package core

import (
	"iter"
	"time"
)

// TryReplenish asks every limiter that is a [Replenisher], and reports whether permits
// came back to any.
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
		if r, ok := l.(Resetter); ok {
			r.Reset()
		}
	}
}

// ReplenishmentPeriod returns the smallest of the limiters' periods; 0 without any.
func (c *ChainedLimiter) ReplenishmentPeriod() time.Duration {
	shortest := time.Duration(0)
	for r := range c.replenishers() {
		if p := r.ReplenishmentPeriod(); shortest == 0 || p < shortest {
			shortest = p
		}
	}
	return shortest
}

// AutoReplenishing reports whether there is a limiter that replenishes, and all such do it
// by themselves.
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

// replenishers yields the limiters whose permits come back with time. A chain without
// such, in this chain, is none: its period is 0.
func (c *ChainedLimiter) replenishers() iter.Seq[Replenisher] {
	return func(yield func(Replenisher) bool) {
		for _, l := range c.limiters {
			if r, ok := l.(Replenisher); ok && r.ReplenishmentPeriod() > 0 && !yield(r) {
				return
			}
		}
	}
}
