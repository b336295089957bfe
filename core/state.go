package core

import (
	"fmt"
	"time"
)

// The methods that report a limiter's state.

// Available returns the number of permits that are not taken. A request for them is still rejected after Close and,
// unless the order is NewestFirst, while another request waits. Available may be called after Close.
func (e *engine) Available() int {
	if e.settings.Load() == nil {
		return 0
	}
	now := e.lockAndServe()
	n := e.m.Available()
	e.unlockAndWake(now)
	return n
}

// Statistics returns the limiter's state and counts. It may be called after Close.
func (e *engine) Statistics() (s Statistics) {
	if e.settings.Load() == nil {
		return s
	}
	now := e.lockAndServe()
	e.concludeLocked()          // counts reservations whose permits have become available
	s.Limit = e.m.Terms().Limit // field by field: a copy costs 7 ns
	s.Available = e.m.Available()
	s.Queued = e.m.Queued()
	s.Granted = e.granted + e.woken.Load()
	s.Rejected = e.rejected
	if p := e.heldPermits(); p != nil {
		p.idleLocked(e.settings.Load(), &e.clock)
	}
	e.unlockAndWake(now)
	return s
}

// QueueOrder returns the current order in which waiters are served.
func (e *engine) QueueOrder() QueueOrder { return e.current().order() }

// IdleFor returns how long all permits have been available. It returns 0 and false if some are not.
// It may be called after Close.
func (e *engine) IdleFor() (time.Duration, bool) {
	if e.settings.Load() == nil {
		return 0, false
	}
	now := e.lockAndServe()
	d, idle := e.idleLocked(now)
	e.unlockAndWake(now)
	return d, idle
}

func (e *engine) idleLocked(now int64) (time.Duration, bool) {
	if p := e.heldPermits(); p != nil {
		d, idle := p.idleLocked(e.settings.Load(), &e.clock)
		return time.Duration(d), idle
	}
	since, idle := e.m.Idle()
	if !idle {
		return 0, false
	}
	return time.Duration(max(now-since, 0)), true
}

// describe returns a human-readable line: the kind of limiter, its name and its statistics.
func (e *engine) describe(kind string) string {
	s := e.settings.Load()
	if s == nil {
		return kind + " (not made by its constructor)"
	}
	if s.name != "" {
		kind += fmt.Sprintf(" %q", s.name)
	}
	return kind + ": " + e.Statistics().String()
}
