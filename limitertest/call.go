package limitertest

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// call is an Acquire that has been started.
type call struct {
	*faults

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

// acquire calls Acquire, and returns when that has returned.
func (c *call) acquire(ctx context.Context, l core.Limiter) {
	defer close(c.ended)
	defer func() { c.panicked(recover()) }()
	c.lease, c.err = l.Acquire(ctx, c.n)
	c.at = time.Now()
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
		c.fatalf("Acquire(%d) %s %v, want it to wait", c.n, when, c)
	}
}

// wantGrant expects the call to have been granted.
func (c *call) wantGrant(when string) {
	switch {
	case !c.granted():
		c.errorf("Acquire(%d) %s %v, want it granted", c.n, when, c)
	case !c.lease.Acquired() || c.lease.Permits() != c.n:
		c.errorf("Acquire(%d) %s returned no error with a lease of %d permits, acquired %v", c.n, when, c.lease.Permits(), c.lease.Acquired())
	}
}

// wantError expects the call to have ended with that very error.
func (c *call) wantError(want error, when string) {
	if c.waits() || c.err != want { //nolint:errorlint // unchanged is the rule
		c.errorf("Acquire(%d) %s %v, want: %v", c.n, when, c, want)
		return
	}
	c.matches("Acquire " + when)
}

// matches expects the lease that was returned with an error to have that error.
func (c *call) matches(what string) {
	if c.lease.Acquired() || c.lease.Permits() != 0 {
		c.errorf("%s: the lease with the error has %d permits, acquired %v", what, c.lease.Permits(), c.lease.Acquired())
	}
	if !same(c.lease.Err(), c.err) {
		c.errorf("%s: the lease's Err() is %q, and the error with it %q, want the same error", what, c.lease.Err(), c.err)
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
