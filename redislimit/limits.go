package redislimit

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/machine"
)

// kind is a kind of limiter. The scripts use the same numbers.
type kind int64

const (
	kindBucket kind = 1 + iota
	kindFixed
	kindSliding
	kindConcurrency
)

func (k kind) String() string {
	names := [...]string{kindBucket: "a token bucket", kindFixed: "a fixed window", kindSliding: "a sliding window", kindConcurrency: "a concurrency limit"}
	if k > 0 && int(k) < len(names) {
		return names[k]
	}
	return "something else"
}

// noun returns the kind without its article.
func (k kind) noun() string {
	_, noun, _ := strings.Cut(k.String(), " ")
	return noun
}

// limits are a limiter's options in the form that the scripts take. They do not change. Times are in microseconds.
type limits struct {
	kind       kind
	name       string
	limit      int
	queueLimit int
	order      core.QueueOrder

	step   int64 // a bucket's tokens per period; a window's segments
	span   int64 // a bucket's period; a window's length; a lease's TTL
	origin int64 // origin of a window, from 0 to span; for a calendar window, a number that identifies the calendar

	bucket   machine.Terms // terms of a bucket
	queue    machine.Terms // terms of the queue
	calendar core.Calendar // calendar of a fixed window; zero if it has none

	metadata []core.Metadata // metadata of every lease, without a calendar window's Window
}

// limitsOf returns the limits that options of package core say, or reports the errors in them. ttl is the TTL of a concurrency lease.
func limitsOf(limit core.Options, ttl time.Duration, f *faults) *limits {
	var l *limits
	switch o := limit.(type) {
	case core.TokenBucketOptions:
		l = bucketLimits(o, f)
	case core.FixedWindowOptions:
		l = fixedLimits(o, f)
	case core.SlidingWindowOptions:
		l = slidingLimits(o, f)
	case core.ConcurrencyLimiterOptions:
		_, err := core.NewConcurrencyLimiter(o)
		f.core(err, "ConcurrencyLimiterOptions", "PermitLimit", o.PermitLimit, false)
		l = &limits{kind: kindConcurrency, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
		l.span = int64(ttl / time.Microsecond)
		l.describe(0)
	default:
		f.Add("limit", fmt.Sprintf("%T", limit), "options of a limiter of package core")
	}
	return l
}

func bucketLimits(o core.TokenBucketOptions, f *faults) *limits {
	_, err := core.NewTokenBucket(o)
	f.core(err, "TokenBucketOptions", "TokenLimit", o.TokenLimit, o.ManualReplenishment)
	f.longest("TokenBucketOptions.ReplenishmentPeriod", o.ReplenishmentPeriod)
	if f.Err() != nil {
		return nil
	}
	l := &limits{kind: kindBucket, name: o.Name, limit: o.TokenLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	l.step, l.span = wholeMicros(int64(o.TokensPerPeriod), int64(o.TokenLimit), o.ReplenishmentPeriod)
	l.bucket = machine.Terms{Limit: l.limit, Step: int(l.step), Span: l.span}
	return l.describe(lasts(l.bucket.FillTime()))
}

// fixedLimits returns those of a sliding window with one segment.
func fixedLimits(o core.FixedWindowOptions, f *faults) *limits {
	_, err := core.NewFixedWindow(o)
	f.core(err, "FixedWindowOptions", "PermitLimit", o.PermitLimit, o.ManualReplenishment)
	f.micros("FixedWindowOptions.Window", o.Window)
	if f.Err() != nil {
		return nil
	}
	l := &limits{kind: kindFixed, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	if o.Calendar != (core.Calendar{}) {
		l.byCalendar(o.Calendar)
	} else {
		l.step, l.span = 1, int64(o.Window/time.Microsecond)
		l.origin = origin(o.Anchor, l.span)
	}
	return l.describe(o.Window)
}

func slidingLimits(o core.SlidingWindowOptions, f *faults) *limits {
	_, err := core.NewSlidingWindow(o)
	f.core(err, "SlidingWindowOptions", "PermitLimit", o.PermitLimit, o.ManualReplenishment)
	f.micros("SlidingWindowOptions.Window", o.Window)
	if o.SegmentsPerWindow > maxSegments || int64(o.SegmentsPerWindow) > int64(o.Window/time.Microsecond) && o.Window > 0 {
		f.Add("SlidingWindowOptions.SegmentsPerWindow", o.SegmentsPerWindow, "at most 2^26, and the window's microseconds")
	}
	if f.Err() != nil {
		return nil
	}
	l := &limits{kind: kindSliding, name: o.Name, limit: o.PermitLimit, queueLimit: o.QueueLimit, order: o.QueueOrder}
	l.step, l.span = int64(o.SegmentsPerWindow), int64(o.Window/time.Microsecond)
	l.origin = origin(o.Anchor, l.span)
	return l.describe(o.Window)
}

// describe returns the limits with their metadata; window is that of a rate limiter.
func (l *limits) describe(window time.Duration) *limits {
	l.metadata = []core.Metadata{core.PermitLimit.With(l.limit)}
	l.queue = machine.Terms{Limit: l.limit, QueueLimit: l.queueLimit}
	switch l.order {
	case core.NewestFirst:
		l.queue.Mode = machine.NewestFirst
	case core.FairShare:
		l.queue.Mode = machine.FairShare
	}
	if !l.rate() {
		l.queue.Mode |= machine.Held
	}
	if l.name != "" {
		l.metadata = append(l.metadata, core.LimiterName.With(l.name))
	}
	if l.rate() && !l.ofCalendar() {
		l.metadata = append(l.metadata, core.Window.With(window))
	}
	return l
}

// appendMetadata appends the metadata that every lease has. window is the length of a calendar window.
func (l *limits) appendMetadata(m []core.Metadata, window time.Duration) []core.Metadata {
	m = append(m, l.metadata...)
	if l.ofCalendar() {
		m = append(m, core.Window.With(window))
	}
	return m
}

// rate reports whether permits are returned with time.
func (l *limits) rate() bool { return l.kind != kindConcurrency }

// sameRate reports whether permits are returned as under m. A window's permits are returned at the times that were set when
// they were taken.
func (l *limits) sameRate(m *limits) bool {
	return l.kind != kindBucket || l.step == m.step && l.span == m.span
}

// window reports whether it is a fixed or a sliding window.
func (l *limits) window() bool { return l.kind == kindFixed || l.kind == kindSliding }

func (l *limits) script() *Script {
	switch l.kind {
	case kindBucket:
		return bucketScript
	case kindConcurrency:
		return leasesScript
	}
	return windowScript
}

// perSecond returns about how many permits are returned in a second.
func (l *limits) perSecond() float64 {
	if l.kind == kindBucket {
		return float64(l.step) / float64(l.span) * 1e6
	}
	return float64(l.limit) / float64(l.span) * 1e6
}

// period returns about how many microseconds pass from one time at which permits come back to the next; 0 if that is not
// known.
func (l *limits) period() int64 {
	switch l.kind {
	case kindBucket:
		return l.span
	case kindConcurrency:
		return 0
	}
	return (l.span-1)/l.step + 1
}

// never is a time that does not come.
const never = machine.Never

// lasts returns microseconds as a duration, at most the longest.
func lasts(micros int64) time.Duration {
	if micros > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(micros) * time.Microsecond
}

// microseconds returns d in microseconds, rounded up, at minLoss 0.
func microseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Microsecond) + 1
}

// wholeMicros returns a bucket's tokens and period with the period in whole microseconds. The period is rounded up. If that
// lowers the rate by more than 0.1 %, both are scaled, up to a period of 1 ms and to as many tokens as the limit.
func wholeMicros(step, limit int64, period time.Duration) (tokens, micros int64) {
	tokens, micros = step, microseconds(period)
	minLoss := loss(period, micros, 1)
	for m := int64(2); minLoss > 0.001 && time.Duration(m)*period <= time.Millisecond && step <= limit/m; m++ {
		scaled := microseconds(time.Duration(m) * period)
		if l := loss(period, scaled, m); l < minLoss {
			tokens, micros, minLoss = m*step, scaled, l
		}
	}
	return tokens, micros
}

// loss returns the fraction by which the rate falls if m periods last micros.
func loss(period time.Duration, micros, m int64) float64 {
	exact := float64(period) * float64(m)
	return (float64(micros)*1000 - exact) / (float64(micros) * 1000)
}

// origin returns the origin, in microseconds from 0 to span, of a grid with a point at anchor. The anchor is rounded up to
// the microsecond; a zero anchor means the Unix epoch.
func origin(anchor time.Time, span int64) int64 {
	if anchor.IsZero() {
		return 0
	}
	// The anchor may be in any year, so the number may not fit into 64 bits.
	micros := new(big.Int).Mul(big.NewInt(anchor.Unix()), big.NewInt(1e6))
	micros.Add(micros, big.NewInt(int64((anchor.Nanosecond()+999)/1000)))
	return micros.Mod(micros, big.NewInt(span)).Int64()
}
