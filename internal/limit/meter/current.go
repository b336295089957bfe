package meter

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
)

// Current is what a limiter uses now. A [core.Switch] calls another limiter after Set, and a limiter per key calls another
// one once that of the key is created or replaced, so a stream looks again at each turn: see [Current.Look].
type Current struct {
	// Rated reports that all permits are returned with time alone: see [hold.ReturnsWithTime].
	Rated bool

	// Bounded reports that there is a concurrency limiter among them that l waits for, so that no more permits than
	// that one has can be held.
	Bounded bool

	links []link // where the limiter may call another one; none if it always asks the same
}

// link is where a limiter asks one that can be exchanged.
type link struct {
	next func() core.Limiter
	now  core.Limiter // what next returned last; may be nil
}

// Fixed reports whether the limiter always asks the same limiters.
func (c *Current) Fixed() bool { return len(c.links) == 0 }

// Look makes c describe what l uses now, and reports whether that has changed since the last Look. l is not nil, and the same
// in each call. If nothing has changed, Look allocates nothing, except for a limiter per key.
func (c *Current) Look(l core.Limiter) bool {
	for _, k := range c.links {
		if !backdoor.Same(k.next(), k.now) {
			c.lookSlow(l)
			return true
		}
	}
	return false
}

// LookFirst is the first Look.
func LookFirst(l core.Limiter) (c Current) {
	c.lookSlow(l)
	return c
}

func (c *Current) lookSlow(l core.Limiter) {
	*c = Current{links: c.links[:0]}
	c.find(l)
	c.Rated = hold.ReturnsWithTime(l)
}

// find adds what l asks.
func (c *Current) find(l core.Limiter) {
	switch k := l.(type) {
	case *core.ConcurrencyLimiter:
		c.Bounded = true
	case *core.Switch:
		c.follow(k.Limiter)
	case backdoor.Asker[core.Limiter]:
		for i := range max(len(k.Asks()), 1) {
			c.follow(func() core.Limiter {
				if asked := k.Asks(); i < len(asked) {
					return asked[i]
				}
				return nil // the limiter of a key that is not created yet
			})
		}
	case interface{ Unwrap() core.Limiter }:
		if len(hold.BindingRoots(l)) > 0 { // else nobody waits for what core.Shadow asks
			c.find(k.Unwrap())
		}
	case interface{ Limiters() []core.Limiter }:
		for _, asked := range k.Limiters() {
			c.find(asked)
		}
	}
}

func (c *Current) follow(next func() core.Limiter) {
	now := next()
	c.links = append(c.links, link{next, now})
	if !backdoor.IsNil(now) {
		c.find(now)
	}
}

// held returns the limiters in the end whose permits may be held.
func (c *Current) held(l core.Limiter) (held []core.Limiter) {
	if c.Rated {
		return nil
	}
	for _, r := range hold.Roots(l) {
		if root := r.(core.Limiter); !hold.ReturnsWithTime(root) {
			held = append(held, root)
		}
	}
	return held
}
