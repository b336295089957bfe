package meter

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// ways has what core knows of the limiters that a limiter asks.
var ways = backdoor.Core[core.Limiter, core.Lease]()

// Current is what a limiter uses now. A [core.Switch] calls another limiter after Set, and a limiter per key calls another
// one once that of the key is created or replaced, so a stream looks again at each turn: see [Current.Look].
type Current struct {
	// Rated reports that all permits are returned with time alone: see [backdoor.Ways.ReturnsWithTime].
	Rated bool

	// Bounded reports that there is a concurrency limiter among them that l waits for, so that no more permits than
	// that one has can be held.
	Bounded bool

	exchanged []core.Limiter // what the Switches and keys that the limiter asks have now; nil for a key without a limiter
	before    []core.Limiter // the same at the Look before, kept for its memory
}

// Fixed reports whether the limiter always asks the same limiters.
func (c *Current) Fixed() bool { return len(c.exchanged) == 0 }

// Look makes c describe what l uses now, and reports whether that has changed since the last Look. l is not nil, and the same
// in each call. Of a Switch, Look allocates nothing.
func (c *Current) Look(l core.Limiter) bool {
	if c.Fixed() {
		return false
	}
	now := Current{exchanged: c.before[:0], before: c.exchanged, Rated: c.Rated}
	now.find(l)
	changed := !sameRoots(now.exchanged, now.before)
	if changed {
		now.Rated = ways.ReturnsWithTime(l)
	}
	*c = now
	return changed
}

// LookFirst is the first Look.
func LookFirst(l core.Limiter) (c Current) {
	c.find(l)
	c.Rated = ways.ReturnsWithTime(l)
	return c
}

// find adds what l asks.
func (c *Current) find(l core.Limiter) {
	switch k := l.(type) {
	case *core.ConcurrencyLimiter:
		c.Bounded = true
	case *core.Switch:
		c.follow(k.Limiter())
	case backdoor.Asker[core.Limiter]:
		asked := k.Asks()
		if len(asked) == 0 {
			c.follow(nil)
		}
		for _, l := range asked {
			c.follow(l)
		}
	case interface{ Unwrap() core.Limiter }:
		if len(ways.Roots(l, true)) > 0 { // else nobody waits for what core.Shadow asks
			c.find(k.Unwrap())
		}
	case interface{ Limiters() []core.Limiter }:
		for _, asked := range k.Limiters() {
			c.find(asked)
		}
	}
}

// follow adds a limiter that can be exchanged.
func (c *Current) follow(l core.Limiter) {
	c.exchanged = append(c.exchanged, l)
	if !backdoor.IsNil(l) {
		c.find(l)
	}
}
