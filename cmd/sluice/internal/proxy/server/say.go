package server

import (
	"sync/atomic"
	"time"
)

// sayOften prints a line about something that may happen at each request, once a second at most.
func (p *Proxy) sayOften(format string, args ...any) {
	if _, ok := p.quiet.passes(time.Second); ok {
		p.say(format, args...)
	}
}

// seldom lets something pass once in a while.
type seldom struct {
	until  atomic.Int64 // Unix nanoseconds
	others atomic.Int64 // what did not pass since
}

// passes reports whether something may pass that may do so once in that time, and how many did not before it.
func (s *seldom) passes(once time.Duration) (others int64, ok bool) {
	now := time.Now()
	if until := s.until.Load(); now.UnixNano() >= until && s.until.CompareAndSwap(until, now.Add(once).UnixNano()) {
		return s.others.Swap(0), true
	}
	s.others.Add(1)
	return 0, false
}
