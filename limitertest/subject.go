package limitertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// subject is a limiter under examination, the facts about it, and the leases taken from
// it. Rules are written with its methods, which are for the rule's goroutine.
type subject struct {
	*facts
	ctx context.Context // of the rule

	l      core.Limiter
	asked  core.Limiter  // calls go there; nil: to l
	made   time.Time     // no later than l was
	leases []core.Lease  // taken, perhaps released
	calls  []*call       // started, perhaps ended
	window time.Duration // of the leases, once one has reported it

	rule string // what the next calls are about; written under mu

	passes atomic.Int64 // odd: time passes on purpose

	mu   sync.Mutex
	errs []ruleError
}

// ruleError is an error of a limiter, and the rule that it breaks.
type ruleError struct {
	rule string
	error
}

// about sets the rule that the next calls are about.
func (s *subject) about(rule string) {
	s.mu.Lock()
	s.rule = rule
	s.mu.Unlock()
	s.met[rule] = true
}

// errorf notes that the rule is broken, and how.
func (s *subject) errorf(format string, args ...any) {
	s.mu.Lock()
	s.errs = append(s.errs, ruleError{s.rule, fmt.Errorf(format, args...)})
	s.mu.Unlock()
}

// fatalf is errorf for an error after which the rule cannot continue.
func (s *subject) fatalf(format string, args ...any) {
	s.errorf(format, args...)
	runtime.Goexit()
}

// renew gives up the limiter and makes a new one.
func (s *subject) renew() {
	s.clear()
	s.asked = nil
	s.made = time.Now()
	if s.l = s.New(); s.l == nil {
		s.fatalf("Config.New returned nil")
	}
}

// end gives up the limiter at the end of the rule.
func (s *subject) end() {
	defer func() { s.panicked(recover()) }()
	s.clear()
}

// clear releases everything and ends all waits.
func (s *subject) clear() {
	for _, c := range s.calls {
		c.cancel()
	}
	if s.calls != nil {
		s.synchronize()
	}
	if slices.ContainsFunc(s.calls, (*call).waits) {
		s.pass(time.Minute) // a limiter may look for the end of a context from time to time
	}
	s.release()
	s.leases, s.calls = nil, nil
	l := s.l
	if s.l = nil; l != nil {
		s.leave(l)
	}
}

// leave closes a limiter, if it can be closed, and is done with it.
func (s *subject) leave(l core.Limiter) {
	if s.Done != nil {
		defer s.Done(l)
	}
	if c, ok := l.(io.Closer); ok && s.Lacks&Closer == 0 {
		if err := c.Close(); err != nil {
			s.errorf("Close: %v", err)
		}
	}
}

// synchronize waits until all goroutines are blocked.
func (s *subject) synchronize() {
	if !s.RealTime {
		synctest.Wait()
	}
}

// pass lets time pass, and the goroutines that it wakes continue.
func (s *subject) pass(d time.Duration) {
	if d > 0 {
		s.passes.Add(1)
		wait(d)
		s.passes.Add(1)
	}
	s.synchronize()
}

// refill lets time pass until all permits are back, and replenishes them if that is manual.
func (s *subject) refill() {
	if s.Gate != nil {
		s.gate(true)
	}
	s.pass(s.Refill)
	if s.Manual {
		s.replenish()
	}
}

// replenish returns the permits that are due.
func (s *subject) replenish() bool {
	r, ok := s.l.(core.Replenisher)
	if !ok {
		s.fatalf("Config.Manual is set, but the limiter is no core.Replenisher")
	}
	back := r.TryReplenish()
	s.synchronize()
	return back
}

// release releases all current leases, but not those of waiters that this serves.
func (s *subject) release() {
	leases := slices.Clone(s.leases)
	for _, c := range s.calls {
		if !c.waits() {
			leases = append(leases, c.lease)
		}
	}
	for _, l := range leases {
		l.Release()
	}
	if s.calls != nil {
		s.synchronize()
	}
}

// restock releases all leases and waits until all permits are back.
func (s *subject) restock() {
	s.release()
	s.refill()
}

// takes wants n permits to be granted now.
func (s *subject) takes(n int) core.Lease {
	l := s.l.TryAcquire(n)
	switch {
	case !l.Acquired():
		s.fatalf("TryAcquire(%d), available %d of %d: refused (%v), want a grant", n, s.l.Available(), s.Limit, l.Err())
	case l.Permits() != n:
		s.fatalf("TryAcquire(%d): a lease of %d permits", n, l.Permits())
	}
	s.leases = append(s.leases, l)
	return l
}

// empties takes all permits, or shuts the gate.
func (s *subject) empties() core.Lease {
	if s.Gate != nil {
		s.gate(false)
		return core.Lease{}
	}
	return s.takes(s.Limit)
}

// spends takes all permits and releases them, so that those of a rate limiter are gone.
func (s *subject) spends() {
	s.empties()
	s.release()
}

// atOnce wants a call that started at an instant to have taken no time.
func (s *subject) atOnce(start time.Time, format string, args ...any) {
	if took := time.Since(start); took > 0 && !s.RealTime {
		s.errorf("%s took %v, want it to return immediately", fmt.Sprintf(format, args...), took)
	}
}

// gate opens or shuts the limiter.
func (s *subject) gate(open bool) {
	s.passes.Add(1)
	s.Gate(s.l, open)
	s.passes.Add(1)
	s.synchronize()
}

// refused expects an immediate rejection.
func (s *subject) refused(n int, when string) core.Lease {
	l := s.l.TryAcquire(n)
	s.leases = append(s.leases, l)
	switch err := l.Err(); {
	case l.Acquired():
		s.fatalf("TryAcquire(%d) %s: granted, want a rejection", n, when)
	case !errors.Is(err, core.ErrRejected):
		s.errorf("TryAcquire(%d) %s: %v, want an error that is core.ErrRejected", n, when, err)
	}
	return l
}

// has wants that many permits to be available.
func (s *subject) has(want int, when string) {
	if got := s.l.Available(); got != want {
		s.errorf("Available() %s: %d, want %d", when, got, want)
	}
}

// counts returns the statistics; ok if the limiter has any.
func (s *subject) counts() (st core.Statistics, ok bool) {
	if r, ok := s.l.(core.Reporter); ok && s.is(Reporter) {
		return r.Statistics(), true
	}
	return st, false
}

// counted wants the statistics to have moved by that much since before.
func (s *subject) counted(before core.Statistics, granted, rejected uint64, what string) {
	after, ok := s.counts()
	if !ok {
		return
	}
	if g, r := after.Granted-before.Granted, after.Rejected-before.Rejected; g != granted || r != rejected {
		s.errorf("%s: Granted grew by %d and Rejected by %d, want %d and %d", what, g, r, granted, rejected)
	}
}

// queues wants that many permits to be waiting.
func (s *subject) queues(want int, when string) {
	if st, ok := s.counts(); ok && st.Queued != want {
		s.fatalf("Statistics().Queued %s: %d, want %d", when, st.Queued, want)
	}
}

// done returns a context that is canceled.
func (s *subject) done() context.Context {
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(errors.New("a cause that must not come back"))
	return ctx
}

// closes wants Close to return nil.
func (s *subject) closes() {
	if err := s.l.(io.Closer).Close(); err != nil {
		s.errorf("Close: %v, want nil", err)
	}
}

// updates changes the limit, and wants that to work.
func (s *subject) updates(limit int) {
	if err := s.Update(s.l, limit); err != nil {
		s.fatalf("Update to a limit of %d: %v, want nil", limit, err)
	}
	s.synchronize()
}
