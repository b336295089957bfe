package redislimit

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// StoreOptions are the options of a limit that processes share: the store that holds it, and what happens while the store is
// unreachable.
type StoreOptions struct {
	// Store runs the scripts; required. The limiter does not close it.
	Store Store

	// Key names the limit; required, without braces. All limiters with the same Key share one limit
	// and must be of the same kind. The keys in Redis start with {Key}: and so are in one slot of a
	// cluster.
	Key string

	// Timeout is the maximum time for a decision. It starts with the caller's call. After that,
	// Unavailable decides. 0 means 50 ms.
	Timeout time.Duration

	// Unavailable decides while the store is unreachable.
	Unavailable Unavailable

	// Local decides under [UseLocal], which requires it. The limiter does not close it.
	Local core.Limiter

	// Prefetch is the maximum number of permits that a rate limiter takes from the store in one call.
	// Permits beyond those requested are prefetched: they serve later requests without a call. 0 means
	// about as many as this process uses in 10 ms. 1 disables prefetching. At most half of the
	// available permits are prefetched.
	Prefetch int

	// TTL is how long a concurrency lease lives without being renewed: at least 10 ms, in whole
	// microseconds. 0 means 30 s.
	TTL time.Duration

	// OnState, if it is not nil, is called when the store becomes unreachable or reachable. It is called
	// with false and an error when three calls of the store in a row have failed, whichever limiters on
	// the store made them, or if that was so before the limiter was made. It is called with true and nil
	// at the first success after that. It may use the limiter.
	OnState func(up bool, err error)
}

// Unavailable is a policy for decisions while the store is unreachable.
type Unavailable uint8

// The policies.
const (
	FailClosed Unavailable = iota // fail with an error that matches [ErrStore]
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
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	s.TTL = cmp.Or(s.TTL, defaultTTL)
	return s
}

// faults collects the errors in options.
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

// unchanged reports an Update that would change the store options: s must be zero or equal the current ones.
func (f *faults) unchanged(s, current StoreOptions) {
	if !same(s, StoreOptions{}) && !same(s.withDefaults(), current) {
		f.add("Shared", "another", "that of the constructor, or none: it cannot be changed")
	}
}

// same reports whether two are equal. Values that cannot be compared count as different.
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

// core reports the error of core's constructor for the same options, and options that only core supports.
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

// err returns all errors, joined, or nil.
func (f *faults) err() error { return errors.Join(f.errs...) }
