package resilience

import "github.com/sluice-go/sluice/core"

// Update puts new options in force for later calls. With a Limiter, that one decides from then
// on; the limiter that it replaces serves its waiters, and is not closed. A nil Limiter keeps the
// present one: the strategy's own gets the options of Default in place, keeps its waiters and serves
// the waiters that now fit; one of the caller's does not change.
//
// Options with faults change nothing. After Close, Update returns [core.ErrClosed].
func (s *Strategy) Update(o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.config.Load()
	if old == nil {
		return core.ErrClosed
	}
	c, err := newConfig(o, old)
	if err != nil {
		return err
	}
	s.config.Store(c)
	return nil
}

// Close closes the strategy's own limiter, if it has or had one: its waiters get [core.ErrClosed];
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
