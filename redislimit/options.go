package redislimit

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/invalid"
)

// Options say where processes share a limit, and what happens while the store is unavailable.
type Options struct {
	// Store runs the scripts; required. The limiter does not close it.
	Store Store

	// Key names the limit; required, without braces. All limiters with the same Key share one limit
	// and must be of the same kind. The keys in Redis start with {Key}: and so are in one slot of a
	// cluster.
	Key string

	// Timeout is the maximum time for a decision. It starts with the caller's call. After that,
	// Unavailable decides. 0 means 50 ms.
	Timeout time.Duration

	// Unavailable decides while the store is unavailable.
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
}

// Unavailable is a policy for decisions while the store is unavailable. [Watch] tells when that is.
type Unavailable uint8

// The policies.
const (
	FailClosed Unavailable = iota // fail with an error that matches [ErrStore]
	FailOpen                      // grant, with a lease that holds nothing
	UseLocal                      // ask [Options].Local
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

// withDefaults returns o with its zero values filled in.
func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	return o
}

// validate reports all errors in the options.
func (o Options) validate(f *faults) {
	if backdoor.IsNil(o.Store) {
		f.Add("Options.Store", "nil", "a store")
	}
	if o.Key == "" || strings.ContainsAny(o.Key, "{}") {
		f.Add("Options.Key", fmt.Sprintf("%q", o.Key), "a name without braces")
	}
	if o.Timeout < 0 {
		f.Add("Options.Timeout", o.Timeout, "at least 0")
	}
	if o.Unavailable > UseLocal {
		f.Add("Options.Unavailable", o.Unavailable, "FailClosed, FailOpen or UseLocal")
	}
	if o.Unavailable == UseLocal && backdoor.IsNil(o.Local) {
		f.Add("Options.Local", "nil", "a limiter, for UseLocal")
	}
	if o.Prefetch < 0 {
		f.Add("Options.Prefetch", o.Prefetch, "at least 0")
	}
	if o.TTL < 0 || o.TTL > 0 && o.TTL < minTTL {
		f.Add("Options.TTL", o.TTL, fmt.Sprintf("0, or at least %v", minTTL))
	}
	f.micros("Options.TTL", o.TTL)
}

// faults collects the invalid fields of options. The fields' names contain the type.
type faults struct{ invalid.Fields }

func newFaults() *faults { return &faults{invalid.Fields{Prefix: "redislimit: "}} }

// core reports the error of core's constructor for a limit, and what only core supports. options is the name of their type, permits
// that of the field with the number.
func (f *faults) core(err error, options, permits string, limit int, manual bool) {
	f.Join(err)
	if int64(limit) > maxLimit {
		f.Add(options+"."+permits, limit, "at most 2^52")
	}
	if manual {
		f.Add(options+".ManualReplenishment", true, "false: permits come back by the server's clock")
	}
}

func (f *faults) micros(field string, d time.Duration) {
	if d > 0 && d%time.Microsecond != 0 {
		f.Add(field, d, "whole microseconds")
	}
	f.longest(field, d)
}

func (f *faults) longest(field string, d time.Duration) {
	if d/time.Microsecond > maxLimit {
		f.Add(field, d, "at most 2^52 µs")
	}
}
