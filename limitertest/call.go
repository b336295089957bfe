package limitertest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// call is an Acquire that has been started.
type call struct {
	s      *subject
	n      int
	cancel context.CancelFunc
	ended  chan struct{}

	// Set when ended is closed.
	lease core.Lease
	err   error
	at    time.Time

	// Of a reservation, which has its lease when it starts to wait; ended is nil.
	due     time.Time
	counted bool // whether it was counted as granted before its permits became available

	// Of a play: how the call ends, unless the model has it wait.
	mortal bool // its context has a deadline
	want   error
	reason string // core's phrase for a rejection
}

// expect sets how the call ends, as the model predicts: with an error, or with a grant.
func (c *call) expect(err error) { c.want = err }

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

// start starts an Acquire, with a deadline from now. 0 means that there is no deadline.
func (s *subject) start(n int, limit time.Duration) *call {
	c := &call{s: s, n: n, ended: make(chan struct{})}
	var ctx context.Context
	if limit > 0 {
		ctx, c.cancel = context.WithTimeout(s.ctx, limit)
	} else {
		ctx, c.cancel = context.WithCancel(s.ctx)
	}
	s.calls = append(s.calls, c)
	l := s.l
	go func() {
		defer close(c.ended)
		defer func() { s.panicked(recover()) }()
		c.lease, c.err = l.Acquire(ctx, n)
		c.at = time.Now()
	}()
	return c
}

// acquiresNow is an Acquire that must return immediately.
func (s *subject) acquiresNow(ctx context.Context, n int, when string) *call {
	c := &call{s: s, n: n, ended: make(chan struct{})}
	start := time.Now()
	c.lease, c.err = s.l.Acquire(ctx, n)
	c.at = time.Now()
	close(c.ended)
	s.leases = append(s.leases, c.lease)
	s.atOnce(start, "Acquire(%d) %s", n, when)
	return c
}

// waits reports whether the call has not returned.
func (c *call) waits() bool {
	if c.ended == nil {
		return time.Now().Before(c.due)
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// granted reports whether the call has returned a lease.
func (c *call) granted() bool { return !c.waits() && c.err == nil }

// String reports whether the call waits, was granted, or how it failed.
func (c *call) String() string {
	switch {
	case c.waits():
		return "waits"
	case c.err == nil:
		return "was granted"
	}
	return "ended with: " + c.err.Error()
}

// mustWait expects the call to wait, or there is no point in continuing.
func (c *call) mustWait(when string) {
	if !c.waits() {
		c.s.fatalf("Acquire(%d) %s %v, want it to wait", c.n, when, c)
	}
}

// wantGrant expects the call to have been granted.
func (c *call) wantGrant(when string) {
	switch {
	case !c.granted():
		c.s.errorf("Acquire(%d) %s %v, want it granted", c.n, when, c)
	case !c.lease.Acquired() || c.lease.Permits() != c.n:
		c.s.errorf("Acquire(%d) %s returned no error with a lease of %d permits, acquired %v", c.n, when, c.lease.Permits(), c.lease.Acquired())
	}
}

// wantError expects the call to have ended with that very error.
func (c *call) wantError(want error, when string) {
	if c.waits() || c.err != want { //nolint:errorlint // unchanged is the rule
		c.s.errorf("Acquire(%d) %s %v, want: %v", c.n, when, c, want)
		return
	}
	c.s.matches(c.lease, c.err, "Acquire "+when)
}

// matches expects the lease that was returned with an error to have that error.
func (s *subject) matches(l core.Lease, err error, what string) {
	if l.Acquired() || l.Permits() != 0 {
		s.errorf("%s: the lease with the error has %d permits, acquired %v", what, l.Permits(), l.Acquired())
	}
	if !same(l.Err(), err) {
		s.errorf("%s: the lease's Err() is %q, and the error with it %q, want the same error", what, l.Err(), err)
	}
}

// same reports whether the errors are one, or equal rejections: a lease made by
// core.Reject makes a new error each time.
func same(a, b error) bool {
	if errors.Is(a, b) && errors.Is(b, a) {
		return true
	}
	var ra, rb *core.RejectedError
	return errors.As(a, &ra) && errors.As(b, &rb) && ra.Error() == rb.Error() && ra.Permits == rb.Permits
}
