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

// subject is a limiter under examination, and the leases taken from it. Tests are written with its
// methods, which are for the test's goroutine.
type subject struct {
	Config
	part    part
	reached []part          // parts up to that one that apply
	skipped string          // why the part does not apply
	ctx     context.Context // context of the test

	l      core.Limiter
	made   time.Time     // no later than l was
	leases []core.Lease  // taken, perhaps released
	calls  []*call       // started, perhaps ended
	window time.Duration // window of the leases, once one has reported it

	passes atomic.Int64 // odd: time passes on purpose

	mu   sync.Mutex
	errs []error
}

// errorf notes how a rule is broken.
func (s *subject) errorf(format string, args ...any) {
	s.mu.Lock()
	s.errs = append(s.errs, fmt.Errorf(format, args...))
	s.mu.Unlock()
}

// fatalf is errorf for an error after which the test cannot continue.
func (s *subject) fatalf(format string, args ...any) {
	s.errorf(format, args...)
	runtime.Goexit()
}

// renew gives up the limiter and makes a new one.
func (s *subject) renew() {
	s.clear()
	s.made = time.Now()
	if s.l = s.New(); s.l == nil {
		s.fatalf("Config.New returned nil")
	}
}

// end gives up the limiter at the end of the test.
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
		synctest.Wait()
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
	if c, ok := l.(io.Closer); ok && !slices.Contains(s.Skip, closing) {
		if err := c.Close(); err != nil {
			s.errorf("Close: %v", err)
		}
	}
}

// pass lets time pass, and the goroutines that it wakes continue.
func (s *subject) pass(d time.Duration) {
	if d > 0 {
		s.passes.Add(1)
		wait(d)
		s.passes.Add(1)
	}
	synctest.Wait()
}

// wait waits for d, by the bubble's clock. It starts no timer of 0: under the race detector two goroutines of a bubble
// that start one together crash Go 1.26.
func wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
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
	synctest.Wait()
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
		synctest.Wait()
	}
}

// restock releases all leases and waits until all permits are back.
func (s *subject) restock() {
	s.release()
	s.refill()
}

// takes expects n permits to be granted now.
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

// atOnce expects a call that started at a given time to have taken no time.
func (s *subject) atOnce(start time.Time, format string, args ...any) {
	if took := time.Since(start); took > 0 {
		s.errorf("%s took %v, want it to return immediately", fmt.Sprintf(format, args...), took)
	}
}

// gate opens or shuts the limiter.
func (s *subject) gate(open bool) {
	s.passes.Add(1)
	s.Gate(s.l, open)
	s.passes.Add(1)
	synctest.Wait()
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

// has expects that many permits to be available.
func (s *subject) has(want int, when string) {
	if got := s.l.Available(); got != want {
		s.errorf("Available() %s: %d, want %d", when, got, want)
	}
}

// counts returns the statistics; ok if the limiter has any, and they are checked.
func (s *subject) counts() (st core.Statistics, ok bool) {
	r, ok := s.l.(core.Reporter)
	if ok = ok && s.reaches(statistics); ok {
		st = r.Statistics()
	}
	return st, ok
}

// queues expects that many permits to be waiting.
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

// closes expects Close to return nil.
func (s *subject) closes() {
	if err := s.l.(io.Closer).Close(); err != nil {
		s.errorf("Close: %v, want nil", err)
	}
}

// updates changes the limit, and expects that to work.
func (s *subject) updates(limit int) {
	if err := s.Update(s.l, limit); err != nil {
		s.fatalf("Update to a limit of %d: %v, want nil", limit, err)
	}
	synctest.Wait()
}
