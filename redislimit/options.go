package redislimit

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// StoreOptions are the options of a limit that processes share: the store it is in, and what happens while the
// store is unreachable.
type StoreOptions struct {
	// Store runs the scripts; required. The limiter does not close it.
	Store Store

	// Key names the limit; required, without braces. All limiters with the Key share one limit,
	// and must be of one kind. The keys in Redis begin with {Key}: and so are in one slot of a
	// cluster.
	Key string

	// Timeout is the maximum time for a decision, from the call on. After that, Unavailable decides. 0
	// means 50 ms.
	Timeout time.Duration

	// Unavailable decides while the store is unreachable.
	Unavailable Unavailable

	// Local decides under [UseLocal], which requires it. The limiter does not close it.
	Local core.Limiter

	// Prefetch is the maximum number of permits that a rate limiter takes from the store in one call.
	// Permits beyond those requested are prefetched and serve later requests without a call. 0
	// prefetches about as many as this process uses in 10 ms; 1 disables prefetching. At most half of
	// the available permits are prefetched.
	Prefetch int

	// TTL is how long a concurrency lease lives without being renewed: at least 10 ms, in whole
	// microseconds. 0 means 30 s.
	TTL time.Duration

	// OnState is called with false when three calls of the store in a row have failed, whichever of
	// its limiters made them, with the error of the third, and with true and nil at the first success
	// after that. If the store is unreachable when the limiter is made, it is called with false then.
	// It may use the limiter. If OnState is nil, nothing is called.
	OnState func(up bool, err error)
}

// Unavailable is a policy for decisions while the store is unreachable.
type Unavailable uint8

// The policies.
const (
	FailClosed Unavailable = iota // refuse, with an error that is [ErrStore]
	FailOpen                      // grant, with a lease that holds nothing
	UseLocal                      // ask [StoreOptions].Local
)

const (
	defaultTimeout = 50 * time.Millisecond
	defaultTTL     = 30 * time.Second
	minTTL         = 10 * time.Millisecond

	maxLimit    = 1 << 52
	maxSegments = 1 << 26
)

// String returns the policy's name.
func (d Unavailable) String() string {
	switch d {
	case FailClosed:
		return "FailClosed"
	case FailOpen:
		return "FailOpen"
	case UseLocal:
		return "UseLocal"
	}
	return fmt.Sprintf("Unavailable(%d)", uint8(d))
}

// withDefaults returns s with its zero values filled in.
func (s StoreOptions) withDefaults() StoreOptions {
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.TTL == 0 {
		s.TTL = defaultTTL
	}
	return s
}

// faults collects everything that is wrong with options.
type faults struct {
	options string
	errs    []error
}

func faultsOf(o options) faults { return faults{options: reflect.TypeOf(o).Elem().Name()} }

func (f *faults) add(field string, value any, want string) {
	f.errs = append(f.errs, fmt.Errorf("redislimit: %s.%s = %v, want %s", f.options, field, value, want))
}

func (f *faults) shared(s StoreOptions) {
	if backdoor.IsNil(s.Store) {
		f.add("Shared.Store", "nil", "a store")
	}
	if s.Key == "" || strings.ContainsAny(s.Key, "{}") {
		f.add("Shared.Key", fmt.Sprintf("%q", s.Key), "a name without braces")
	}
	if s.Timeout < 0 {
		f.add("Shared.Timeout", s.Timeout, "at least 0")
	}
	if s.Unavailable > UseLocal {
		f.add("Shared.Unavailable", s.Unavailable, "FailClosed, FailOpen or UseLocal")
	}
	if s.Unavailable == UseLocal && backdoor.IsNil(s.Local) {
		f.add("Shared.Local", "nil", "a limiter, for UseLocal")
	}
	if s.Prefetch < 0 {
		f.add("Shared.Prefetch", s.Prefetch, "at least 0")
	}
	if s.TTL < 0 || s.TTL > 0 && s.TTL < minTTL {
		f.add("Shared.TTL", s.TTL, fmt.Sprintf("0, or at least %v", minTTL))
	}
	f.micros("Shared.TTL", s.TTL)
}

// unchanged reports an Update that would change what cannot be changed: s must be zero or equal the current options.
func (f *faults) unchanged(s, current StoreOptions) {
	if !same(s, StoreOptions{}) && !same(s.withDefaults(), current) {
		f.add("Shared", "another", "that of the constructor, or none: it cannot be changed")
	}
}

// same reports whether two are equal; values that cannot be compared are not.
func same(a, b StoreOptions) bool {
	return sameValue(a.Store, b.Store) && sameValue(a.Local, b.Local) &&
		reflect.ValueOf(a.OnState).Pointer() == reflect.ValueOf(b.OnState).Pointer() &&
		a.Key == b.Key && a.Timeout == b.Timeout && a.Unavailable == b.Unavailable && a.Prefetch == b.Prefetch && a.TTL == b.TTL
}

func sameValue(a, b any) bool {
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	if !v.IsValid() || !w.IsValid() {
		return v.IsValid() == w.IsValid()
	}
	return v.Type() == w.Type() && v.Comparable() && v.Equal(w)
}

// core finds the faults that core does, with the same options, and what only core can do.
func (f *faults) core(err error, limit string, permits int, order core.QueueOrder, manual bool) {
	if err != nil {
		f.errs = append(f.errs, err)
	}
	if order == core.FairShare {
		f.add("QueueOrder", order, "oldest-first or newest-first: the queue of one process cannot be fair to those of others")
	}
	if int64(permits) > maxLimit {
		f.add(limit, permits, "at most 2^52")
	}
	if manual {
		f.add("ManualReplenishment", true, "false: permits come back by the server's clock")
	}
}

func (f *faults) micros(field string, d time.Duration) {
	if d > 0 && d%time.Microsecond != 0 {
		f.add(field, d, "whole microseconds")
	}
	f.longest(field, d)
}

func (f *faults) longest(field string, d time.Duration) {
	if d/time.Microsecond > maxLimit {
		f.add(field, d, "at most 2^52 µs")
	}
}

func (f *faults) found() bool { return len(f.errs) > 0 }

// err returns all faults at once, nil if there is none.
func (f *faults) err() error { return errors.Join(f.errs...) }
