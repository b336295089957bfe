package resilience

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
)

// RejectedError is the error of a function that a strategy did not run because its limiter
// rejected.
//
// errors.Is(err, [core.ErrRejected]) is always true, and errors.As finds a *[core.RejectedError]
// with the limiter's reason.
type RejectedError struct {
	Source     Source        // the strategy
	RetryAfter time.Duration // time until the limiter expects to grant; 0: unknown
	Lease      core.Lease    // the limiter's answer, not acquired, with its metadata
	Err        error         // the limiter's error
}

// newRejected returns the error for a limiter's rejection, whose error is err. A rejection by another
// strategy, inside the limiter, keeps its source.
func newRejected(source Source, l core.Lease, err error) *RejectedError {
	r := &RejectedError{Source: source, Lease: l, Err: err}
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

// Error names the strategy, with the pipeline if it is in one, and gives the limiter's error.
func (e *RejectedError) Error() string {
	var inner *RejectedError
	if errors.As(e.Err, &inner) && inner.Source == e.Source {
		return e.Err.Error() // names the strategy already
	}
	names := []string{e.Source.Pipeline, e.Source.Instance, cmp.Or(e.Source.Strategy, DefaultName)}
	s := "resilience: " + strings.Join(slices.DeleteFunc(names, func(name string) bool { return name == "" }), "/")
	if e.Err == nil {
		return s + ": rejected"
	}
	return s + ": " + e.Err.Error()
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

// Source identifies a strategy. A name that was not given is "".
type Source struct {
	Pipeline string // name of the innermost pipeline that contains the strategy
	Instance string // of that pipeline
	Strategy string
}

// String returns "pipeline/instance/strategy", with "(null)" for a name that was not given.
func (s Source) String() string {
	return cmp.Or(s.Pipeline, "(null)") + "/" + cmp.Or(s.Instance, "(null)") + "/" + cmp.Or(s.Strategy, "(null)")
}
