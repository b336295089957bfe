package rlslimit

import (
	"fmt"
	"math"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
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

// allowance is the limit of a rule: a number of requests in a window that starts with the clock's unit and lasts one or
// several of them, or what package spec reads. It is comparable.
type allowance struct {
	Requests   uint32 // 0: it bans
	Unit       timeUnit
	Multiplier uint32 // units; at least 1

	spec spec.Limit // if Unit is 0
}

// longestOf has how long a unit is, at most.
var longestOf = map[timeUnit]time.Duration{
	second: time.Second, minute: time.Minute, hour: time.Hour, day: 24 * time.Hour, week: 7 * 24 * time.Hour,
	month: 31 * 24 * time.Hour, year: 366 * 24 * time.Hour,
}

// anchorOf returns an instant at which windows of a unit start: the Unix epoch, or the first Monday after it.
func anchorOf(u timeUnit) time.Time {
	if u == week {
		return time.Date(1970, time.January, 5, 0, 0, 0, 0, time.UTC)
	}
	return time.Unix(0, 0)
}

// calendar returns the windows of months and years, in UTC; zero: all units are of one length.
func (l allowance) calendar() core.Calendar {
	var c calendar.Calendar
	switch l.Unit {
	case month:
		c = calendar.New(calendar.Month, int(l.Multiplier), 1, nil)
	case year:
		c = calendar.New(calendar.Year, int(l.Multiplier), 0, nil)
	}
	return core.Calendar(c)
}

// check finds a window that is too long.
func (l allowance) check() error {
	if most := math.MaxInt64 / 2 / int64(longestOf[l.Unit]); int64(l.Multiplier) > most {
		return fmt.Errorf("unit_multiplier is %d, want at most %d for this unit", l.Multiplier, most)
	}
	return nil
}

// kind returns the kind of limiter that the limit is.
func (l allowance) kind() spec.Kind {
	if l.Unit != 0 {
		return spec.FixedWindow
	}
	return l.spec.Kind
}

// prefetch returns how many permits one call of the store may take: up to a hundredth of a large limit, so that few requests
// need a call. 0 leaves that to redislimit.
func (l allowance) prefetch() int {
	if n := int(min(l.perUnit()/100, maxPrefetch)); n > 1 {
		return n
	}
	return 0
}

const maxPrefetch = 64

// bans reports whether the limit rejects everything.
func (l allowance) bans() bool { return l.Unit != 0 && l.Requests == 0 }

// String returns the limit as text: that of package spec, or "5/minute", "5/30 seconds".
func (l allowance) String() string {
	if l.Unit == 0 {
		return l.spec.String()
	}
	unit := strings.ToLower(l.Unit.String())
	if l.Multiplier > 1 {
		return fmt.Sprintf("%d/%d %ss", l.Requests, l.Multiplier, unit)
	}
	return fmt.Sprintf("%d/%s", l.Requests, unit)
}

// current returns the limit as a response has it.
func (l allowance) current(name string) *ratelimit.RateLimitResponse_RateLimit {
	requests, unit, multiplier := l.Requests, l.Unit, l.Multiplier
	if unit == 0 {
		requests, unit, multiplier = l.inUnits()
	}
	c := &ratelimit.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: requests, Unit: unit}
	if multiplier > 1 {
		c.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return c
}

// perUnit returns the requests per unit, as a response has them.
func (l allowance) perUnit() uint32 {
	if l.Unit != 0 {
		return l.Requests
	}
	return saturated(uint64(l.spec.Permits))
}

// inUnits returns a limit of package spec in the largest unit that measures its time. A time that is no whole number of
// seconds is rounded up.
func (l allowance) inUnits() (requests uint32, unit timeUnit, multiplier uint32) {
	requests = saturated(uint64(l.spec.Permits))
	switch calendar.Calendar(l.spec.Calendar).Unit() {
	case calendar.Day:
		return requests, day, 1
	case calendar.Week:
		return requests, week, 1
	case calendar.Month:
		return requests, month, 1
	case calendar.Year:
		return requests, year, 1
	case calendar.None:
	}
	for _, unit := range []timeUnit{week, day, hour, minute, second} { // months and years differ in length
		if length := longestOf[unit]; l.spec.Per%length == 0 && l.spec.Per/length <= math.MaxUint32 {
			return requests, unit, uint32(l.spec.Per / length)
		}
	}
	seconds := (l.spec.Per + time.Second - 1) / time.Second
	return requests, second, saturated(uint64(seconds))
}

func saturated(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }

// limiter is what all rate limiters of core and redislimit are.
type limiter interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Settler
	core.Resetter
	GiveBack(permits int)
	Close() error
}

// window returns the options of the limit's window.
func (l allowance) window(name string) core.FixedWindowOptions {
	o := core.FixedWindowOptions{Name: name, PermitLimit: number(uint64(l.Requests))}
	if o.Calendar = l.calendar(); o.Calendar == (core.Calendar{}) {
		o.Window, o.Anchor = longestOf[l.Unit]*time.Duration(l.Multiplier), anchorOf(l.Unit)
	}
	return o
}

// local makes a limiter of this process.
func (l allowance) local(name string) (core.Limiter, error) {
	if l.Unit == 0 {
		return l.spec.New(name)
	}
	return core.NewFixedWindow(l.window(name))
}

// make makes a limiter: one that processes share if there is a store.
func (l allowance) make(name string, shared redislimit.StoreOptions) (limiter, error) {
	made, err := l.local(name)
	if err != nil {
		return nil, err
	}
	if shared.Store != nil {
		if made, err = redislimit.Share(made, shared); err != nil {
			return nil, err
		}
	}
	if m, ok := made.(limiter); ok {
		return m, nil
	}
	return nil, fmt.Errorf("rlslimit: a limiter of kind %v is not a rate limiter", l.kind())
}

// update applies l to a limiter of make's, which is of the same kind.
func (l allowance) update(to limiter, name string) error {
	from, err := l.local(name)
	if err != nil {
		return err
	}
	switch t := to.(type) {
	case redislimit.Limiter:
		return t.UpdateFrom(from)
	case *core.FixedWindow:
		if f, ok := from.(*core.FixedWindow); ok {
			return t.Update(f.Options())
		}
	}
	return l.spec.Update(to)
}

// untilEnd returns the time until the current window of a unit ends, or 0 if the limit is one of package spec.
func (l allowance) untilEnd() time.Duration {
	if l.Unit == 0 {
		return 0
	}
	options := l.window("")
	options.PermitLimit = max(options.PermitLimit, 1) // a ban has 0
	window, err := core.NewFixedWindow(options)
	if err != nil {
		return 0
	}
	reset, _ := core.ResetAfter.From(window.TryAcquire(1))
	return reset
}
