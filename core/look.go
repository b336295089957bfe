package core

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// Available returns the permits that could be taken now.
func (e *engine) Available() int {
	if c := e.cell.Load(); c != nil {
		if n, ok := e.availableIn(c, c.word.Load()); ok {
			return n
		}
	}
	return e.statisticsSlow().Available
}

// Statistics returns the limiter's counts. They go on after Close.
func (e *engine) Statistics() Statistics {
	if c := e.cell.Load(); c != nil {
		// What the word does not count changes while it is shut, or when the count is that of
		// a probe. If it is the same before and after, the two belong together.
		granted := e.granted.Load()
		w := c.word.Load()
		if n, ok := e.availableIn(c, w); ok && e.granted.Load() == granted && e.cell.Load() == c {
			return Statistics{Limit: c.inForce(), Available: n, Granted: granted + c.number(w), Rejected: e.rejected.Load()}
		}
	}
	return e.statisticsSlow()
}

func (e *engine) statisticsSlow() Statistics {
	if e.cell.Load() == nil {
		return Statistics{}
	}
	now := e.lock()
	c := e.cell.Load()
	s := Statistics{
		Limit:     c.inForce(),
		Available: e.m.Available(),
		Queued:    e.m.Queued(),
		Granted:   e.granted.Load() + c.number(c.word.Load()),
		Rejected:  e.rejected.Load(),
	}
	e.unlock(now)
	return s
}

// availableIn returns the permits that could be taken now by what the word tells, if that is
// open, so that nobody waits.
func (e *engine) availableIn(c *cell, w uint64) (n int, ok bool) {
	if w&shut != 0 {
		return 0, false
	}
	if c.Kind == machine.Concurrency {
		return int(w&heldMask) + e.setAside(c), true
	}
	now := c.clock()
	if e.wentBack(c, now) {
		return 0, false
	}
	if c.Kind == machine.Window {
		return int(w&windowMask) + e.setAside(c), now < c.bound.Load()
	}
	if c.StateBits == 0 {
		openings := e.granted.Load()
		w = c.word.Load()
		until, l := c.bound.Load(), e.credited(c, w)
		same := w&shut == 0 && e.granted.Load() == openings // else the four do not belong together
		return c.Limit - c.missing(l.full-now, l.spare), same && now < until
	}
	l := c.unpack(w, now-c.From)
	return c.Limit - c.missing(l.full-(now-c.From), l.spare), true
}

// setAside returns the available permits for which there is no room in the open word.
func (e *engine) setAside(c *cell) int {
	if c.Limit <= maxHeld {
		return 0
	}
	return int(e.aside.Load())
}

// inForce returns the limit in force.
func (c *cell) inForce() int {
	if c.Kind == machine.Concurrency {
		return int(c.bound.Load())
	}
	return c.Limit
}

// IdleFor returns how long all permits have been available, and whether they are.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.cell.Load() == nil {
		return 0, false
	}
	now := e.lock()
	d, idle := e.idle(now)
	e.unlock(now)
	return d, idle
}

// idle is IdleFor. The mutex is held.
func (e *engine) idle(now int64) (time.Duration, bool) {
	var since int64
	var idle bool
	if c := e.cell.Load(); c.Kind == machine.Concurrency {
		now = c.clock()
		since, idle = e.held().idleSince(now, c.inForce())
		e.watch.Store(watchGrants)
	} else {
		since, idle = e.m.Idle()
	}
	if !idle {
		return 0, false
	}
	return time.Duration(max(now-since, 0)), true
}

// describe returns a line for a person: what kind of limiter this is, and how it stands.
func (e *engine) describe(kind string) string {
	c := e.cell.Load()
	if c == nil {
		return kind + " (not made by its constructor)"
	}
	if c.name != "" {
		kind += fmt.Sprintf(" %q", c.name)
	}
	return kind + ": " + e.Statistics().String()
}
