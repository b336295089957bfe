package spec

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Limit is what a line of text says. It is comparable; the zero Limit is unlimited. Fields
// that do not belong to the kind are 0.
//
// A Limit is a value for [flag.TextVar], and for encoding/json and whatever else takes
// [encoding.TextMarshaler].
type Limit struct {
	Kind     Kind
	Permits  int             // at once, or per Per; at least 1
	Per      time.Duration   // of the rates: buckets and windows; above 0
	Burst    int             // of buckets: the token limit; 0: the permits of 10 ms, and at least 1
	Segments int             // of sliding windows; 0: 10; at most the nanoseconds of Per
	Queue    int             // permits that may wait; 0: none
	Order    core.QueueOrder // who of those that wait is served first
}

// ErrKind is returned by Update for a limiter of another kind than the limit's.
var ErrKind = errors.New("spec: a limiter of another kind")

const defaultSegments = 10

// New returns the limiter. name is for its metadata and errors; "": none. For a Limit that
// no text could say, the error says all that is wrong with it.
func (l Limit) New(name string) (core.Limiter, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	switch l.Kind {
	case Concurrency:
		return limiter(core.NewConcurrencyLimiter(l.concurrency(core.ConcurrencyLimiterOptions{Name: name})))
	case TokenBucket:
		return limiter(core.NewTokenBucket(l.bucket(core.TokenBucketOptions{Name: name})))
	case FixedWindow:
		return limiter(core.NewFixedWindow(l.fixed(core.FixedWindowOptions{Name: name})))
	case SlidingWindow:
		return limiter(core.NewSlidingWindow(l.sliding(core.SlidingWindowOptions{Name: name})))
	}
	return core.Unlimited(), nil
}

// limiter keeps a nil pointer from becoming a Limiter that is not nil.
func limiter[L core.Limiter](l L, err error) (core.Limiter, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// terms is what a limiter with options O has.
type terms[O any] interface {
	Options() O
	Update(options O) error
}

// Update puts the limit in force in l, while it runs, as the Update of its type does. Its
// name, its anchor and manual replenishment stay. An l of another kind, or nil, is an error
// that Is [ErrKind], and changes nothing.
func (l Limit) Update(limiter core.Limiter) error {
	if err := l.validate(); err != nil {
		return err
	}
	if v := reflect.ValueOf(limiter); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: nil, want %v", ErrKind, l.Kind)
	}
	switch l.Kind {
	case Unlimited:
		if reflect.TypeOf(limiter) == reflect.TypeOf(core.Unlimited()) {
			return nil
		}
	case Concurrency:
		if t, ok := limiter.(terms[core.ConcurrencyLimiterOptions]); ok {
			return t.Update(l.concurrency(t.Options()))
		}
	case TokenBucket:
		if t, ok := limiter.(terms[core.TokenBucketOptions]); ok {
			return t.Update(l.bucket(t.Options()))
		}
	case FixedWindow:
		if t, ok := limiter.(terms[core.FixedWindowOptions]); ok {
			return t.Update(l.fixed(t.Options()))
		}
	case SlidingWindow:
		if t, ok := limiter.(terms[core.SlidingWindowOptions]); ok {
			return t.Update(l.sliding(t.Options()))
		}
	}
	return fmt.Errorf("%w: %T, want %v", ErrKind, limiter, l.Kind)
}

// The following set what the limit says in options, and leave the rest.

func (l Limit) concurrency(o core.ConcurrencyLimiterOptions) core.ConcurrencyLimiterOptions {
	o.PermitLimit, o.QueueLimit, o.QueueOrder = l.Permits, l.Queue, l.Order
	return o
}

func (l Limit) bucket(o core.TokenBucketOptions) core.TokenBucketOptions {
	r := l.rate()
	o.TokenLimit, o.TokensPerPeriod, o.ReplenishmentPeriod = r.burst, r.tokens, r.period
	o.QueueLimit, o.QueueOrder = l.Queue, l.Order
	return o
}

func (l Limit) fixed(o core.FixedWindowOptions) core.FixedWindowOptions {
	o.PermitLimit, o.Window, o.QueueLimit, o.QueueOrder = l.Permits, l.Per, l.Queue, l.Order
	return o
}

func (l Limit) sliding(o core.SlidingWindowOptions) core.SlidingWindowOptions {
	o.PermitLimit, o.Window, o.SegmentsPerWindow = l.Permits, l.Per, l.segments()
	o.QueueLimit, o.QueueOrder = l.Queue, l.Order
	return o
}

func (l Limit) segments() int {
	if l.Segments == 0 {
		return defaultSegments
	}
	return l.Segments
}

// validate returns what no text could say, all at once.
func (l Limit) validate() error {
	var errs []error
	fault := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("spec: Limit.%s = %v, want %s", field, value, want))
	}
	if !l.Kind.known() {
		fault("Kind", uint8(l.Kind), wantKind)
		return errors.Join(errs...)
	}
	of := fieldsOf[l.Kind]
	whole := func(field string, belongs bool, value, least int) {
		switch {
		case !belongs && value != 0:
			fault(field, value, fmt.Sprintf("0 for kind %v", l.Kind))
		case belongs && value < least:
			fault(field, value, fmt.Sprintf("at least %d", least))
		}
	}
	whole("Permits", l.Kind != Unlimited, l.Permits, 1)
	switch {
	case !of.per && l.Per != 0:
		fault("Per", l.Per, fmt.Sprintf("0 for kind %v", l.Kind))
	case of.per && l.Per <= 0:
		fault("Per", l.Per, "above 0")
	}
	whole("Burst", of.burst, l.Burst, 0)
	whole("Segments", of.segments, l.Segments, 0)
	if of.segments && l.Per > 0 && time.Duration(l.segments()) > l.Per {
		fault("Segments", l.segments(), fmt.Sprintf("at most %d, the nanoseconds of Per", l.Per.Nanoseconds()))
	}
	whole("Queue", of.queue, l.Queue, 0)
	if _, err := l.Order.MarshalText(); err != nil || !of.queue && l.Order != 0 {
		fault("Order", l.Order, fmt.Sprintf("%v or %v, of kinds with a queue", core.OldestFirst, core.NewestFirst))
	}
	return errors.Join(errs...)
}

// fields are those that belong to a kind, beside the permits.
type fields struct{ per, burst, segments, queue bool }

var fieldsOf = [...]fields{
	Unlimited:     {},
	Concurrency:   {queue: true},
	TokenBucket:   {per: true, burst: true, queue: true},
	FixedWindow:   {per: true, queue: true},
	SlidingWindow: {per: true, segments: true, queue: true},
}
