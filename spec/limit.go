package spec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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
var ErrKind = errors.New("spec: a limiter of another kind")

const defaultSegments = 10

// New returns a new limiter with the limit. The limiter has the name in its metadata and
// errors; "": none. An unlimited or blocked limiter never has a name. If no text describes the Limit, the
// error reports all that is wrong with it.
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
	case Blocked:
		return core.Blocked(), nil
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

// Update changes the limiter's limit to l while it is in use, as the Update method of its type
// does. The limiter keeps its name, its anchor and manual replenishment, except that a Calendar has
// no anchor and no manual replenishment. If the limiter is nil or of another kind, nothing changes and Update
// returns an error that wraps [ErrKind]; a chain, and a view such as that of [core.Shadow], is of
// another kind, so update the limiter that is in it. If no text describes l, nothing changes and
// the error reports all that is wrong with it. Update is safe for concurrent use and returns
// [core.ErrClosed] after the limiter's Close, except that for an unlimited or blocked limiter it always
// returns nil.
func (l Limit) Update(limiter core.Limiter) error {
	if err := l.validate(); err != nil {
		return err
	}
	if backdoor.IsNil(limiter) {
		return fmt.Errorf("%w: nil, want %v", ErrKind, l.Kind)
	}
	switch l.Kind {
	case Unlimited:
		if sameType(limiter, core.Unlimited()) {
			return nil
		}
	case Blocked:
		if sameType(limiter, core.Blocked()) {
			return nil
		}
	case Concurrency:
		return update(limiter, l, l.concurrency)
	case TokenBucket:
		return update(limiter, l, l.bucket)
	case FixedWindow:
		return update(limiter, l, l.fixed)
	case SlidingWindow:
		return update(limiter, l, l.sliding)
	}
	return l.otherKind(limiter)
}

// update sets the limit's fields in the options of a limiter that has options O.
func update[O any](limiter core.Limiter, l Limit, set func(O) O) error {
	if t, ok := limiter.(interface {
		Options() O
		Update(options O) error
	}); ok {
		return t.Update(set(t.Options()))
	}
	return l.otherKind(limiter)
}

func (l Limit) otherKind(limiter core.Limiter) error {
	return fmt.Errorf("%w: %T, want %v", ErrKind, limiter, l.Kind)
}

func sameType(a, b core.Limiter) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

// Set changes the limit of a Switch to l while it is in use. If the current limiter is of the limit's kind,
// Set is Update. Otherwise the Switch gets a new limiter with the name, and the requests that wait move to it. If
// the Switch is closed, Set returns [core.ErrClosed]. On an error nothing has changed.
func (l Limit) Set(s *core.Switch, name string) error {
	if s == nil {
		return fmt.Errorf("%w: nil, want a Switch", ErrKind)
	}
	before := s.Limiter()
	err := l.Update(before)
	if !errors.Is(err, ErrKind) {
		return err
	}
	made, err := l.New(name)
	if err != nil {
		return err
	}
	s.Set(made)
	if backdoor.Same(s.Limiter(), before) {
		return core.ErrClosed
	}
	return nil
}

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
		if o.of != nil {
			check(o.field, o.belongs(l.Kind), *o.of(&l), 0)
		}
	}
	if l.tooManySegments() {
		fault("Segments", l.segments(), "at most %d, the nanoseconds of Per", l.Per.Nanoseconds())
	}
	if _, err := l.Order.MarshalText(); err != nil || !slices.Contains(queued, l.Kind) && l.Order != 0 {
		fault("Order", l.Order, "%v, %v or %v, of kinds with a queue", core.OldestFirst, core.NewestFirst, core.FairShare)
	}
	return errors.Join(errs...)
}
