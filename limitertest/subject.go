package limitertest

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// The parts of the rules whose calls other parts make too.
const (
	queue        = "queue"
	statistics   = "statistics"
	closing      = "close"
	refunds      = "refunds"
	settlements  = "settlements"
	resets       = "resets"
	updates      = "updates"
	reservations = "reservations"
)

// subject is a limiter under examination, and the leases taken from it. Tests are written with its
// methods, which are for the test's goroutine.
type subject struct {
	Config
	faults

	ctx     context.Context // context of the test
	skipped string          // why the part under test does not apply
	reached []string        // names of the parts up to that one that apply

	l      core.Limiter
	made   time.Time     // no later than l was
	leases []core.Lease  // taken, perhaps released
	calls  []*call       // started, perhaps ended
	window time.Duration // window of the leases, once one has reported it

	passes atomic.Int64 // odd: time passes on purpose
}

// renew gives up the limiter and makes a new one.
func (s *subject) renew() {
	s.clear()
	s.made = time.Now()
	if s.l = s.New(); s.l == nil {
		s.fatalf("Config.New returned nil")
	}
}

// clear releases everything, ends all waits, and gives up the limiter.
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
	if !slices.Contains(s.Skip, closing) {
		s.closes(l)
	}
}

// closes calls Close of a limiter, if it has that, and expects nil.
func (s *subject) closes(l core.Limiter) {
	if c, ok := l.(io.Closer); ok {
		if err := c.Close(); err != nil {
			s.errorf("Close: %v, want nil", err)
		}
	}
}

// reaches reports whether the calls of a part are made, and its rules checked.
func (s *subject) reaches(name string) bool { return slices.Contains(s.reached, name) }

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

// gate opens or shuts the limiter.
func (s *subject) gate(open bool) {
	s.passes.Add(1)
	s.Gate(s.l, open)
	s.passes.Add(1)
	synctest.Wait()
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

// start starts an Acquire, with a deadline from now. 0 means that there is no deadline.
func (s *subject) start(n int, limit time.Duration) *call {
	ctx := s.ctx
	var cancel context.CancelFunc
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	c := &call{faults: &s.faults, n: n, cancel: cancel, ended: make(chan struct{})}
	s.calls = append(s.calls, c)
	go c.acquire(ctx, s.l)
	return c
}

// acquires starts an Acquire and returns when it has returned, or waits.
func (s *subject) acquires(n int) *call {
	c := s.start(n, 0)
	synctest.Wait()
	return c
}

// waiter is acquires for a request that has to wait, or there is no point in continuing.
func (s *subject) waiter(n int, when string) *call {
	c := s.acquires(n)
	c.mustWait(when)
	return c
}

// acquiresNow is an Acquire that must return immediately.
func (s *subject) acquiresNow(ctx context.Context, n int, when string) *call {
	c := &call{faults: &s.faults, n: n, ended: make(chan struct{})}
	start := time.Now()
	c.acquire(ctx, s.l)
	s.leases = append(s.leases, c.lease)
	s.atOnce(start, "Acquire(%d) %s", n, when)
	return c
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

// settles has a live grant settled, and expects a lease of n permits in its place.
func (s *subject) settles(l core.Lease, n int) core.Lease {
	start, before := time.Now(), metadataOf(l)
	got := l.Settle(n)
	s.leases = append(s.leases, got)
	s.atOnce(start, "Settle to %d", n)
	switch want := max(n, 0); {
	case !got.Acquired():
		s.fatalf("Settle of %d permits to %d: not acquired (%v), want a lease of %d", l.Permits(), n, got.Err(), want)
	case got.Permits() != want:
		s.fatalf("Settle of %d permits to %d: a lease of %d, want %d", l.Permits(), n, got.Permits(), want)
	}
	if after := metadataOf(got); !reflect.DeepEqual(after, before) {
		s.errorf("Settle of %d permits to %d: metadata %v, want that of the lease before, %v", l.Permits(), n, after, before)
	}
	return got
}

// copied marks a copy of a lease.
var copied = core.NewMetadataKey[int]("COPY")

// metadataOf returns the lease's metadata, but for names of the limiter's own, by which it
// may know its leases.
func metadataOf(l core.Lease) map[string]any {
	all := map[string]any{}
	for name, value := range l.Metadata() {
		switch name {
		case core.RetryAfter.Name(), core.ReasonPhrase.Name(), core.LimiterName.Name(), core.PermitLimit.Name(),
			core.Remaining.Name(), core.ResetAfter.Name(), core.Window.Name(), copied.Name():
			all[name] = value
		}
	}
	return all
}

// updates changes the limit, and expects that to work.
func (s *subject) updates(limit int) {
	if err := s.Update(s.l, limit); err != nil {
		s.fatalf("Update to a limit of %d: %v, want nil", limit, err)
	}
	synctest.Wait()
}
