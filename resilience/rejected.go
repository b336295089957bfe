package resilience

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// RejectedError is the error of a function that a strategy did not run because its limiter
// rejected.
//
// errors.Is(err, [core.ErrRejected]) is always true, and errors.As finds a *[core.RejectedError]
// with the limiter's reason.
type RejectedError struct {
	Strategy   string        // the name of the strategy that rejected
	RetryAfter time.Duration // time until the limiter expects to grant; 0: unknown
	Lease      core.Lease    // the limiter's lease, which is not acquired, with its metadata
	Err        error         // the limiter's error
}

// newRejected returns the error for a rejection by a limiter, whose error is err. A rejection by
// another strategy, inside the limiter, keeps the name of that strategy.
func newRejected(name string, l core.Lease, err error) *RejectedError {
	r := &RejectedError{Strategy: name, Lease: l, Err: err}
	if inner := new(RejectedError); errors.As(err, &inner) {
		r.Strategy, r.RetryAfter, r.Lease = inner.Strategy, inner.RetryAfter, inner.Lease
	}
	if d, ok := core.RetryAfter.From(r.Lease); ok {
		r.RetryAfter = d
	} else if e := new(core.RejectedError); r.RetryAfter == 0 && errors.As(err, &e) {
		r.RetryAfter = e.RetryAfter
	}
	r.RetryAfter = max(r.RetryAfter, 0)
	return r
}

// Error names the strategy and contains the limiter's error.
func (e *RejectedError) Error() string {
	if inner := new(RejectedError); errors.As(e.Err, &inner) && inner.Strategy == e.Strategy {
		return e.Err.Error() // contains the name already
	}
	s := "resilience: "
	if e.Strategy != "" {
		s += e.Strategy + ": "
	}
	if e.Err == nil {
		return s + "rejected"
	}
	return s + e.Err.Error()
}

// Unwrap returns the limiter's error.
func (e *RejectedError) Unwrap() error { return e.Err }

// Is reports whether target is [core.ErrRejected].
func (e *RejectedError) Is(target error) bool { return target == core.ErrRejected }

// As sets target, if it is a **[core.RejectedError], to the limiter's rejection, even if the
// limiter's error is of another type.
func (e *RejectedError) As(target any) bool {
	t, ok := target.(**core.RejectedError)
	if !ok || errors.As(e.Err, t) {
		return ok
	}
	name, _ := core.LimiterName.From(e.Lease)
	reason, _ := core.ReasonPhrase.From(e.Lease)
	*t = &core.RejectedError{Limiter: name, Permits: 1, Reason: reason, RetryAfter: e.RetryAfter, Cause: e.Err}
	return true
}
