package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// Available returns the permits that could be taken now.
func (e *engine) Available() int {
	if s, ok := e.glance(); ok {
		return s.Available
	}
	return e.Statistics().Available
}

// Statistics returns the limiter's counts. They go on after Close.
func (e *engine) Statistics() Statistics {
	if s, ok := e.glance(); ok {
		return s
	}
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

// inForce returns the limit in force.
func (c *cell) inForce() int {
	if c.Kind == machine.Concurrency {
		return int(c.bound.Load())
	}
	return c.Limit
}

// glance returns the statistics if the word is open, so that nobody waits, and tells all.
func (e *engine) glance() (s Statistics, ok bool) {
	c := e.cell.Load()
	if c == nil {
		return s, false
	}
	// What the word does not count changes while it is shut, or when the count is that of a
	// probe. If it is the same before and after, the two belong together.
	granted := e.granted.Load()
	w := c.word.Load()
	if w&shut != 0 {
		return s, false
	}
	switch c.Kind {
	case machine.Concurrency:
		s.Available = int(w & heldMask)
	case machine.Window:
		now := c.clock()
		if now >= c.bound.Load() || e.wentBack(c, now) {
			return s, false
		}
		s.Available = int(w & windowMask)
	case machine.TokenBucket:
		now := c.clock()
		if e.wentBack(c, now) {
			return s, false
		}
		l := c.unpack(w, now-c.From)
		s.Available = c.Limit - c.missing(l.full-(now-c.From), l.spare)
	}
	if c.Limit > maxHeld {
		s.Available += int(e.aside.Load())
	}
	s.Limit, s.Granted, s.Rejected = c.inForce(), granted+c.number(w), e.rejected.Load()
	return s, e.granted.Load() == granted && e.cell.Load() == c
}

// IdleFor returns how long all permits have been available, and whether they are.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.cell.Load() == nil {
		return 0, false
	}
	now := e.lock()
	var since int64
	var idle bool
	if c := e.cell.Load(); c.Kind == machine.Concurrency {
		now = c.clock()
		since, idle = e.held().idleSince(now, c.inForce())
		e.watch.Store(watchGrants)
	} else {
		since, idle = e.m.Idle()
	}
	e.unlock(now)
	if !idle {
		return 0, false
	}
	return time.Duration(max(now-since, 0)), true
}
