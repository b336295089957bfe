package core

import (
	"github.com/sluice-go/sluice/internal/clock"
	"github.com/sluice-go/sluice/internal/machine"
)

// heldPermits is the account of a concurrency limiter, and what it keeps for its leases.
type heldPermits struct {
	machine.Permits

	// idleSince is the time at which the limiter was first seen idle, or machine.Never if it was not since
	// its latest grant. Releases read no clock, so it is known only from the first time that a caller asks.
	idleSince int64

	spare handles // each refers to the current settings, unless the limiter is watched
}

// holdLocked returns a lease that holds n permits, which leaves left permits free. s are the current settings.
func (p *heldPermits) holdLocked(s *settings, n, left int, c *clock.Clock) Lease {
	p.idleSince = machine.Never
	h := p.spare.pop()
	if h == nil {
		h = new(handle)
		h.s.Store(s)
	}
	at := int64(unknown)
	if s.hook != nil {
		at = c.Elapsed()
		if h.settings() != s {
			h.s.Store(s) // ended leases may then report a later limit
		}
	}
	if b, ok := packUsual(n, left); ok {
		return Lease{h: h, bits: uint64(held) | b, reset: at, at: h.generation}
	}
	return newLease(h, held, n, left, at, h.generation)
}

// spareLocked keeps a handle whose lease has ended for another lease. Its settings are s.
func (p *heldPermits) spareLocked(h *handle, s, current *settings) {
	if s == current || s.hook != nil {
		p.spare.push(h)
	}
}

// updatedLocked drops the spare handles, unless the limiter is watched: ended leases still report the limit that they
// were granted under.
func (p *heldPermits) updatedLocked(s *settings) {
	if s.hook == nil {
		p.spare = handles{}
	}
}

// idleLocked returns for how long a concurrency limiter has been seen idle, and whether it is.
func (p *heldPermits) idleLocked(s *settings, c *clock.Clock) (d int64, idle bool) {
	if p.Free(&s.Terms) < s.Limit {
		return 0, false
	}
	now := c.Elapsed()
	p.idleSince = min(p.idleSince, now) // it was not seen idle since its latest grant, or the clock went back
	return now - p.idleSince, true
}
