package resilience

import (
	"fmt"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// owned is a limiter that a strategy made and has to close.
type owned struct {
	*core.ConcurrencyLimiter
	replaced atomic.Bool // the config in force has another limiter
}

// Update puts new options in force for later calls. With a Limiter, that one decides from then
// on; if it replaces the strategy's own limiter, that serves its waiters, and is closed when its
// last lease is back. A nil Limiter keeps the present one: the strategy's own gets the options
// of Default in place, keeps its waiters and serves the waiters that now fit; one of the caller's does
// not change.
//
// Options with faults change nothing. After Close, Update returns [core.ErrClosed].
func (s *Strategy) Update(o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.config.Load()
	if old == nil {
		return core.ErrClosed
	}
	c := &config{Options: o, acquire: o.Limiter}
	if o.Limiter == nil {
		c.acquire, c.settle, c.own = old.acquire, old.settle, old.own
	}
	if err := c.validate(); err != nil {
		return err
	}
	if c.own != nil {
		if err := c.own.Update(o.own()); err != nil {
			return fmt.Errorf("resilience: Options.Default: %w", err)
		}
	}
	s.config.Store(c)
	if old.own != c.own {
		old.own.replaced.Store(true)
		old.closeReplaced()
	}
	return nil
}

// Close closes the strategy's own limiter, if it has one: its waiters get [core.ErrClosed];
// functions that run continue, and their permits come back. From then on Do and Update return
// core.ErrClosed, also if the limiter is the caller's. Close always returns nil, and may be called again.
func (s *Strategy) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Store(nil)
	if s.own != nil {
		_ = s.own.Close() // always nil
	}
	return nil
}

// closeReplaced closes the strategy's own limiter if it was replaced, has no leases out and no
// waiters. A caller that asks it later, with this config, tries again with the one in force.
func (c *config) closeReplaced() {
	// If a release comes before the limiter is marked as replaced, Update sees that it is idle;
	// otherwise the releasing call sees the mark.
	if c.own == nil || !c.own.replaced.Load() {
		return
	}
	if s := c.own.Statistics(); s.Available == s.Limit && s.Queued == 0 {
		_ = c.own.Close() // always nil
	}
}
