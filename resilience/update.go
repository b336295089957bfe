package resilience

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// owned is a limiter that a strategy made and has to close.
type owned struct {
	*core.ConcurrencyLimiter
	retired atomic.Bool // no terms in force have it
}

// Update puts new options in force for later calls. With a Limiter, that one decides from then
// on; if it replaces the strategy's own limiter, that serves its waiters, and is closed when its
// last lease is back. A nil Limiter keeps the present one: the strategy's own gets the options
// of Default in place, keeps its waiters and serves those that now fit; one of the caller's does
// not change.
//
// Options with faults change nothing. After Close, Update returns [core.ErrClosed].
func (s *Strategy) Update(o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.terms.Load()
	if old == nil {
		return core.ErrClosed
	}
	t := &terms{Options: o, acquire: o.Limiter}
	if o.Limiter == nil {
		t.acquire, t.settle, t.own = old.acquire, old.settle, old.own
	}
	if err := t.validate(); err != nil {
		return err
	}
	if t.own != nil {
		if err := t.own.Update(o.own()); err != nil {
			return fmt.Errorf("resilience: Options.Default: %w", err)
		}
	}
	s.terms.Store(t)
	s.retired = slices.DeleteFunc(s.retired, (*owned).drained)
	if old.own != t.own && old.own != nil {
		old.own.retired.Store(true)
		if !old.own.drained() {
			s.retired = append(s.retired, old.own)
		}
	}
	return nil
}

// Close closes the strategy's own limiter, if it has one: its waiters get [core.ErrClosed];
// functions that run continue, and their permits come back. From then on Do and Update return
// core.ErrClosed, whoever owns the limiter. Close always returns nil, and may be called again.
func (s *Strategy) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.terms.Swap(nil)
	if t != nil && t.own != nil {
		_ = t.own.Close() // always nil
	}
	for _, o := range s.retired {
		_ = o.Close()
	}
	s.retired = nil
	return nil
}

// drain closes a limiter that was replaced, if this was its last lease.
func (t *terms) drain() {
	// If the release came before the limiter was retired, Update sees that it is idle;
	// otherwise this call sees that it is retired.
	if o := t.own; o != nil && o.retired.Load() {
		o.drained()
	}
}

// drained closes a retired limiter that has no leases out and no waiters, and reports whether it
// did. A caller that still comes to it, with terms from before, tries again with those in force.
func (o *owned) drained() bool {
	s := o.Statistics()
	if s.Available < s.Limit || s.Queued > 0 {
		return false
	}
	_ = o.Close() // always nil
	return true
}
