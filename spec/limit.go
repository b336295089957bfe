package spec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Limit is a limit that one line of text describes. It is comparable. The zero Limit is
// unlimited. Fields that do not belong to the kind are 0.
//
// A Limit can be used with [flag.TextVar], encoding/json and anything else that takes an
// [encoding.TextMarshaler].
type Limit struct {
	Kind     Kind
	Permits  int             // held at a time, or granted per Per; at least 1
	Per      time.Duration   // buckets and windows: the time in which Permits are granted; above 0, or 0 with a Calendar
	Calendar core.Calendar   // fixed windows: windows of days, weeks, months or years instead of Per; zero: none
	Burst    int             // buckets: the token limit; 0: Permits or, if Bytes, the bytes of 10 ms, at least 1,460
	Bytes    bool            // the amount was written with a B, as in 8MiB: see Burst and String
	Segments int             // sliding windows: at most the nanoseconds of Per; 0: 10
	Queue    int             // permits that may wait; 0: requests do not wait
	Order    core.QueueOrder // which waiting request is served first
}

// ErrKind is returned by [Limit.Update] if the limiter is not of the limit's kind.
var ErrKind = errors.New("spec: wrong kind of limiter")

const defaultSegments = 10

// New returns a new limiter with the limit. name appears in the limiter's metadata and errors. It may be empty, and
// is ignored for an unlimited, blocked or paused limit. If the Limit is invalid, the error lists everything that is
// wrong.
func (l Limit) New(name string) (core.Limiter, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	switch l.Kind {
	case Unlimited:
		return core.Unlimited(), nil
	case Blocked:
		return core.Blocked(), nil
	case Paused:
		return core.Paused(), nil
	}
	return core.New(l.options(name))
}

// Options returns the limit as the options of a limiter, for [core.New], [core.Apply] and [core.Switch.Apply]. If the
// Limit is invalid, or unlimited, blocked or paused, it returns an error.
func (l Limit) Options(name string) (core.Options, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	if !l.Kind.counted() {
		return nil, fmt.Errorf("spec: kind %v has no options, want bucket, fixed, sliding or concurrency", l.Kind)
	}
	return l.options(name), nil
}

// options returns the options of a valid Limit of a kind that has some.
func (l Limit) options(name string) core.Options {
	switch l.Kind {
	case Concurrency:
		return l.concurrency(core.ConcurrencyLimiterOptions{Name: name})
	case TokenBucket:
		return l.bucket(core.TokenBucketOptions{Name: name})
	case FixedWindow:
		return l.fixed(core.FixedWindowOptions{Name: name})
	default:
		return l.sliding(core.SlidingWindowOptions{Name: name})
	}
}

// Update changes the limiter's limit to l while it is in use, as the Update method of its type
// does. The limiter keeps its name, its anchor and manual replenishment, except that a Calendar has
// no anchor and no manual replenishment. If the limiter is nil or of another kind, nothing changes and Update
// returns an error that wraps [ErrKind]. A chain, and a view such as that of [core.Shadow], is of
// another kind: use [Limits.Apply] for a chain, and update the limiter in a view. If the Limit is invalid, nothing
// changes and the error lists everything that is wrong. After the limiter's Close, Update returns [core.ErrClosed].
// It is safe for concurrent use.
func (l Limit) Update(limiter core.Limiter) error {
	if err := l.validate(); err != nil {
		return err
	}
	if backdoor.IsNil(limiter) {
		return fmt.Errorf("%w: nil, want %v", ErrKind, l.Kind)
	}
	c := l.changeOf(limiter)
	if c == nil {
		return fmt.Errorf("%w: %T, want %v", ErrKind, limiter, l.Kind)
	}
	return c.update()
}

// change is an update of a limiter of a limit's kind.
type change struct {
	limiter core.Limiter
	none    bool         // the limiter has the limit
	update  func() error // makes the change
}

// changeOf returns the update of the limiter to a valid Limit, or nil if the limiter is of another kind.
func (l Limit) changeOf(limiter core.Limiter) *change {
	switch l.Kind {
	case Concurrency:
		return changeOf(limiter, l.concurrency)
	case TokenBucket:
		return changeOf(limiter, l.bucket)
	case FixedWindow:
		return changeOf(limiter, l.fixed)
	case SlidingWindow:
		return changeOf(limiter, l.sliding)
	}
	if made, err := l.New(""); err != nil || !alike(limiter, made) {
		return nil
	}
	return &change{limiter, true, func() error { return closed(limiter) }}
}

// changeOf returns the update of a limiter that has options O; set sets the limit's fields in them.
func changeOf[O comparable](limiter core.Limiter, set func(O) O) *change {
	t, ok := limiter.(interface {
		Options() O
		Update(options O) error
	})
	if !ok {
		return nil
	}
	before := t.Options()
	after := set(before)
	return &change{limiter, before == after, func() error { return t.Update(after) }}
}

// alike reports whether two limiters without options are of one kind. Blocked and paused ones have one type; their String
// starts with the kind's word.
func alike(a, b core.Limiter) bool {
	word := func(l core.Limiter) string {
		w, _, _ := strings.Cut(backdoor.Describe(l), ":")
		return w
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && word(a) == word(b)
}

// closed returns [core.ErrClosed] if the limiter is closed. It requests no permits, so nothing is counted.
func closed(limiter core.Limiter) error {
	if ways.Closed(limiter) {
		return core.ErrClosed
	}
	return nil
}

var ways = backdoor.Core[core.Limiter, core.Lease]()

// The following set the limit's fields in options and leave the rest.

func (l Limit) concurrency(o core.ConcurrencyLimiterOptions) core.ConcurrencyLimiterOptions {
	o.PermitLimit, o.QueueLimit, o.QueueOrder = l.Permits, l.Queue, l.Order
	return o
}

func (l Limit) bucket(o core.TokenBucketOptions) core.TokenBucketOptions {
	burst, r := l.rate()
	o.TokenLimit, o.TokensPerPeriod, o.ReplenishmentPeriod = burst, r.Tokens, r.Period
	o.QueueLimit, o.QueueOrder = l.Queue, l.Order
	return o
}

func (l Limit) fixed(o core.FixedWindowOptions) core.FixedWindowOptions {
	o.PermitLimit, o.Window, o.Calendar, o.QueueLimit, o.QueueOrder = l.Permits, l.Per, l.Calendar, l.Queue, l.Order
	if o.Calendar != (core.Calendar{}) {
		o.Anchor, o.ManualReplenishment = time.Time{}, false
	}
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

func (l Limit) tooManySegments() bool {
	return l.Kind == SlidingWindow && l.Per > 0 && time.Duration(l.segments()) > l.Per
}

// validate reports everything that no text could describe.
func (l Limit) validate() error {
	var errs []error
	fault := func(field string, value any, want string, args ...any) {
		errs = append(errs, fmt.Errorf("spec: Limit.%s = %v, want %s", field, value, fmt.Sprintf(want, args...)))
	}
	if !l.Kind.known() {
		fault("Kind", uint8(l.Kind), wantKind)
		return errors.Join(errs...)
	}
	check := func(field string, belongs bool, value, least int) {
		switch {
		case !belongs && value != 0:
			fault(field, value, "0 for kind %v", l.Kind)
		case belongs && value < least:
			fault(field, value, "at least %d", least)
		}
	}
	check("Permits", l.Kind.counted(), l.Permits, 1)
	switch {
	case l.Calendar != (core.Calendar{}):
		if want := l.validCalendar(); want != "" {
			fault("Calendar", l.Calendar, "%s", want)
		}
		if l.Per != 0 {
			fault("Per", l.Per, "0 with a Calendar")
		}
	case !l.Kind.timed() && l.Per != 0:
		fault("Per", l.Per, "0 for kind %v", l.Kind)
	case l.Kind.timed() && l.Per <= 0:
		fault("Per", l.Per, "above 0")
	}
	if l.Bytes && !l.Kind.counted() {
		fault("Bytes", true, "false for kind %v", l.Kind)
	}
	for _, o := range options {
		if o.number != nil {
			check(o.field, o.belongs(l.Kind), *o.number(&l), 0)
		}
	}
	if l.tooManySegments() {
		fault("Segments", l.segments(), "at most %d, the nanoseconds of Per", l.Per.Nanoseconds())
	}
	if l.Order > core.FairShare || l.Order != 0 && !slices.Contains(queued, l.Kind) {
		fault("Order", l.Order, "%v, %v or %v, of kinds with a queue", core.OldestFirst, core.NewestFirst, core.FairShare)
	}
	return errors.Join(errs...)
}
