package rlslimit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

// timeUnit is a unit of time, as the protocol has them.
type timeUnit = ratelimit.RateLimitResponse_RateLimit_Unit

// The units.
const (
	second = ratelimit.RateLimitResponse_RateLimit_SECOND
	minute = ratelimit.RateLimitResponse_RateLimit_MINUTE
	hour   = ratelimit.RateLimitResponse_RateLimit_HOUR
	day    = ratelimit.RateLimitResponse_RateLimit_DAY
	week   = ratelimit.RateLimitResponse_RateLimit_WEEK
	month  = ratelimit.RateLimitResponse_RateLimit_MONTH
	year   = ratelimit.RateLimitResponse_RateLimit_YEAR
)

// unitOf returns the unit of a name, in any case.
func unitOf(name string) (timeUnit, bool) {
	n, ok := ratelimit.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)]
	return timeUnit(n), ok && n != 0
}

// allowance is the limit of a rule. It is comparable.
type allowance struct {
	units                              // as responses have it
	spec.Limit                         // has only the kind if the limit was written in units
	window     core.FixedWindowOptions // without a name, of a fixed window
}

// units is a number of requests in a window of one or several units. It bans if there are no requests.
type units struct {
	requests   uint32
	unit       timeUnit
	multiplier uint32 // at least 1
}

// length is how long a unit is, or a month and a year at most.
type length struct {
	unit timeUnit
	time.Duration
}

var lengths = []length{
	{year, 366 * 24 * time.Hour},
	{month, 31 * 24 * time.Hour},
	{week, 7 * 24 * time.Hour},
	{day, 24 * time.Hour},
	{hour, time.Hour},
	{minute, time.Minute},
	{second, time.Second},
}

// allowance returns the limit, whose windows start with the clock's units.
func (u units) allowance() (allowance, error) {
	l := allowance{Limit: spec.Limit{Kind: spec.FixedWindow}, units: u}
	at := slices.IndexFunc(lengths, func(of length) bool { return of.unit == u.unit })
	if at < 0 {
		return l, fmt.Errorf("invalid rate limit unit '%s'", u.unit)
	}
	length := lengths[at].Duration
	if most := math.MaxInt64 / 2 / int64(length); int64(u.multiplier) > most {
		return l, fmt.Errorf("unit_multiplier is %d, want at most %d for this unit", u.multiplier, most)
	}
	l.window.PermitLimit = number(uint64(u.requests))
	switch u.unit {
	case week:
		l.window.Window, l.window.Anchor = length*time.Duration(u.multiplier), firstMonday
	case month:
		l.window.Calendar = core.Monthly(1, nil)
	case year:
		l.window.Calendar = core.Yearly(nil)
	default:
		l.window.Window, l.window.Anchor = length*time.Duration(u.multiplier), epoch
	}
	return l, nil
}

// Times at which windows start.
var (
	epoch       = time.Unix(0, 0)
	firstMonday = epoch.AddDate(0, 0, 4)
)

// months returns how many months a window has, or 0 if it is one of a calendar or of a fixed length.
func (u units) months() int {
	switch {
	case u.multiplier > 1 && u.unit == month:
		return int(u.multiplier)
	case u.multiplier > 1 && u.unit == year:
		return 12 * int(u.multiplier)
	}
	return 0
}

// windowAt returns the window at a time. The next window of several months may have another length, so in its last month a window
// has the length of the next one, and the same end: limiters have the next one before it starts. See rule.turn.
func (l allowance) windowAt(at time.Time) core.FixedWindowOptions {
	w := l.window
	if n := l.months(); n > 0 {
		y, m, _ := at.UTC().Date()
		next := 12*(y-1970) + int(m-time.January) + 1 // months, from the epoch
		start := next - next%n
		w.Calendar, w.Anchor = core.Calendar{}, monthsAfterEpoch(start)
		w.Window = monthsAfterEpoch(start + n).Sub(w.Anchor)
	}
	return w
}

func monthsAfterEpoch(n int) time.Time {
	return time.Date(1970, time.January+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
}

// ofSpec returns a limit of package spec. Responses have it in the largest unit that measures its time; a time that is no whole
// number of seconds is rounded up.
func ofSpec(s spec.Limit) allowance {
	l := allowance{Limit: s, units: units{saturated(uint64(s.Permits)), second, 1}}
	if s.Kind == spec.FixedWindow {
		l.window = core.FixedWindowOptions{PermitLimit: s.Permits, Window: s.Per, Calendar: s.Calendar}
	}
	name, _, _ := strings.Cut(s.Calendar.String(), " ")
	if unit, ok := unitOf(name); ok {
		l.unit = unit
		return l
	}
	l.window.Anchor = epoch
	l.multiplier = saturated(uint64((s.Per + time.Second - 1) / time.Second))
	for _, u := range lengths[2:] { // months and years differ in length
		if s.Per%u.Duration == 0 && s.Per/u.Duration <= math.MaxUint32 {
			l.unit, l.multiplier = u.unit, uint32(s.Per/u.Duration)
			break
		}
	}
	return l
}

// period returns how long the limit counts a request, about.
func (l allowance) period() time.Duration {
	at := slices.IndexFunc(lengths, func(of length) bool { return of.unit == l.unit })
	if l.Per > 0 || at < 0 {
		return l.Per
	}
	return lengths[at].Duration
}

// prefetch returns how many permits one call of the store may take: up to a hundredth of a large limit, so that few requests
// need a call. 0 leaves that to redislimit.
func (l allowance) prefetch() int {
	if n := int(min(l.requests/100, maxPrefetch)); n > 1 {
		return n
	}
	return 0
}

const maxPrefetch = 64

// bans reports whether the limit rejects everything.
func (l allowance) bans() bool { return l.Kind == spec.FixedWindow && l.window.PermitLimit == 0 }

// String returns the limit as text: that of package spec, or "5/minute", "5/30 seconds".
func (l allowance) String() string {
	if l.Limit != (spec.Limit{Kind: spec.FixedWindow}) {
		return l.Limit.String()
	}
	unit := strings.ToLower(l.unit.String())
	if l.multiplier > 1 {
		return fmt.Sprintf("%d/%d %ss", l.requests, l.multiplier, unit)
	}
	return fmt.Sprintf("%d/%s", l.requests, unit)
}

// current returns the limit as a response has it.
func (l allowance) current(name string) *ratelimit.RateLimitResponse_RateLimit {
	c := &ratelimit.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: l.requests, Unit: l.unit}
	if l.multiplier > 1 {
		c.UnitMultiplier = wrapperspb.UInt32(l.multiplier)
	}
	return c
}

func saturated(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

// rateLimiter is what all rate limiters of core and redislimit are.
type rateLimiter interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Resetter
	GiveBack(permits int)
	Close() error
}

// options returns the options of the limit's limiters, with the current window.
func (l allowance) options(name string) (core.Options, error) {
	if l.Kind != spec.FixedWindow {
		return l.Options(name)
	}
	w := l.windowAt(time.Now())
	w.Name = name
	return w, nil
}

// make makes a limiter: one that processes share if there is a store.
func (l allowance) make(name string, shared redislimit.Options) (rateLimiter, error) {
	o, err := l.options(name)
	if err != nil {
		return nil, err
	}
	if shared.Store != nil {
		return redislimit.New(o, shared)
	}
	made, err := core.New(o)
	if err != nil {
		return nil, err
	}
	if m, ok := made.(rateLimiter); ok {
		return m, nil
	}
	return nil, fmt.Errorf("rlslimit: a limiter of kind %v is not a rate limiter", l.Kind)
}

// untilEnd returns the time until the current window ends, or 0 if the limit is no fixed window.
func (l allowance) untilEnd() time.Duration {
	now := time.Now()
	w := l.windowAt(now)
	if _, end := w.Calendar.Bounds(now); !end.IsZero() {
		return end.Sub(now)
	}
	if w.Window == 0 {
		return 0
	}
	left := w.Anchor.Sub(now) % w.Window // of a window that has started: below 0
	if left <= 0 {
		left += w.Window
	}
	return left
}
