package limitertest

import (
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// inspect expects a lease to be well-formed, whatever was asked.
func (s *subject) inspect(l core.Lease) {
	s.metadataInOrder(l)
	switch d, ok := core.Window.From(l); {
	case !ok:
	case s.Refill == 0:
		s.errorf("Window of %v: %v, want none: permits do not come back with time", l, d)
	case s.window == 0:
		s.window = d
	case d != s.window:
		s.errorf("Window of %v: %v, and of another lease %v, want the same", l, d, s.window)
	}
	s.errorMatches(l)
	helps := errors.Is(l.Err(), core.ErrRejected) && s.Refill > 0 && !s.Manual
	switch d, ok := core.RetryAfter.From(l); {
	case ok && !helps:
		s.errorf("RetryAfter of %v: %v, want none", l, d)
	case !ok && helps && !s.Holds: // a chain may be out of permits that no time brings back
		s.errorf("RetryAfter of %v: none, want the time until it can be served", l)
	}
}

// metadataInOrder expects each name of the metadata once, only names that have a value, and values
// that make sense.
func (s *subject) metadataInOrder(l core.Lease) {
	seen := map[string]bool{}
	for name, value := range l.Metadata() {
		switch {
		case seen[name]:
			s.errorf("metadata of %v: %s twice", l, name)
		case name == "" || value == nil:
			s.errorf("metadata of %v: %q = %v, want a name and a value", l, name, value)
		}
		seen[name] = true
	}
	sensible(s, l, seen, core.RetryAfter, func(d time.Duration) bool { return d > 0 })
	sensible(s, l, seen, core.ReasonPhrase, func(v string) bool { return v != "" })
	sensible(s, l, seen, core.LimiterName, func(v string) bool { return v != "" })
	sensible(s, l, seen, core.PermitLimit, func(v int) bool { return v >= 1 })
	sensible(s, l, seen, core.Remaining, func(v int) bool { return v >= 0 })
	sensible(s, l, seen, core.ResetAfter, func(d time.Duration) bool { return d >= 0 })
	sensible(s, l, seen, core.Window, func(d time.Duration) bool { return d > 0 })
}

// sensible expects the key's value to be of its type, and right, if the lease has any.
func sensible[T any](s *subject, l core.Lease, seen map[string]bool, key core.MetadataKey[T], right func(T) bool) {
	v, ok := key.From(l)
	if ok != seen[key.Name()] || ok && !right(v) {
		s.errorf("metadata of %v: %s = %v, and From returns %v", l, key.Name(), v, ok)
	}
}

// errorMatches expects no error for a grant, and otherwise an error whose fields agree with the
// metadata.
func (s *subject) errorMatches(l core.Lease) {
	err := l.Err()
	switch {
	case l.Acquired():
		if err != nil {
			s.errorf("Err() of %v: %v, want nil", l, err)
		}
		return
	case l.Permits() != 0:
		s.errorf("Permits() of %v: %d, want 0", l, l.Permits())
	case err == nil:
		s.errorf("Err() of %v: nil, want an error", l)
	}
	var r *core.RejectedError
	if !errors.As(err, &r) {
		if errors.Is(err, core.ErrRejected) {
			s.errorf("Err() of %v: a %T, want a *core.RejectedError", l, err)
		}
		return
	}
	after, _ := core.RetryAfter.From(l)
	reason, _ := core.ReasonPhrase.From(l)
	name, _ := core.LimiterName.From(l)
	if r.RetryAfter != after || r.Reason != reason || r.Limiter != name {
		s.errorf("Err() of %v: %q has %v, %q, %q; its metadata %v, %q, %q",
			l, err, r.RetryAfter, r.Reason, r.Limiter, after, reason, name)
	}
}
