package resilience

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
)

// RejectedError says that a strategy's limiter refused to let a function run.
//
// errors.Is(err, [core.ErrRejected]) is always true, and errors.As finds a
// *[core.RejectedError], which says what was in the way.
type RejectedError struct {
	Source     Source        // the strategy that refused
	RetryAfter time.Duration // when the limiter expects to grant; 0: unknown
	Lease      core.Lease    // the limiter's answer, not acquired, with its metadata
	Err        error         // the limiter's error
}

// newRejected returns the error for what a limiter said. A rejection that another strategy
// made, and that comes by way of the limiter, keeps its source.
func newRejected(source Source, l core.Lease, err error) *RejectedError {
	r := &RejectedError{Source: source, Lease: l, Err: err}
	if l.Acquired() || !limiter.Is(l.Err(), err) && !sameRejection(l.Err(), err) {
		r.Lease = core.Refuse(err) // the limiter's author was careless
	}
	if inner := new(RejectedError); errors.As(err, &inner) {
		r.Source, r.RetryAfter, r.Lease = inner.Source, inner.RetryAfter, inner.Lease
	}
	if d, ok := core.RetryAfter.From(r.Lease); ok {
		r.RetryAfter = d
	} else if e := new(core.RejectedError); r.RetryAfter == 0 && errors.As(err, &e) {
		r.RetryAfter = e.RetryAfter
	}
	r.RetryAfter = max(r.RetryAfter, 0)
	return r
}

// sameRejection reports whether both errors tell of the same rejection: a lease may make
// its error anew each time.
func sameRejection(a, b error) bool {
	var ra, rb *core.RejectedError
	return errors.As(a, &ra) && errors.As(b, &rb) && ra.Error() == rb.Error() && ra.Permits == rb.Permits
}

// Error says who refused, and what the limiter said.
func (e *RejectedError) Error() string {
	s := "resilience: " + e.Source.String()
	if e.Err == nil {
		return s + ": rejected"
	}
	if inner, ok := errors.AsType[*RejectedError](e.Err); ok && inner.Source == e.Source {
		return e.Err.Error() // says so already
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the limiter's error.
func (e *RejectedError) Unwrap() error { return e.Err }

// Is reports whether target is [core.ErrRejected].
func (e *RejectedError) Is(target error) bool { return target == core.ErrRejected }

// As sets target, if it is a **[core.RejectedError], to what the limiter said, for a
// limiter whose error is none.
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

// Source says which strategy it was. A name that nobody gave is "".
type Source struct {
	Pipeline string // name of the innermost pipeline that holds the strategy
	Instance string // of that pipeline
	Strategy string
}

// String returns "pipeline/instance/strategy", with "(null)" for what has no name.
func (s Source) String() string {
	return orNull(s.Pipeline) + "/" + orNull(s.Instance) + "/" + orNull(s.Strategy)
}

func orNull(name string) string {
	if name == "" {
		return "(null)"
	}
	return name
}
