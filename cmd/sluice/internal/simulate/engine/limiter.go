package engine

import (
	"errors"
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/calendar"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/spec"
)

// limiter is one limiter in virtual time: that of one key of one rule. Instants are nanoseconds since the first request,
// at which windows are anchored, but for those of the calendar.
type limiter struct {
	machine.Machine[*visit]

	alarm int64 // the instant of the earliest event that will look at the queue
}

// terms returns a limit as a machine wants it, from the options that core would have.
func terms(l spec.Limit) (*machine.Terms, error) {
	made, err := l.New("")
	if err != nil {
		return nil, err
	}
	if l.Kind == spec.Blocked {
		return nil, errors.New("a blocked limit rejects every request: there is nothing to simulate")
	}
	t := new(machine.Terms)
	order := core.OldestFirst
	switch l := made.(type) {
	case *core.ConcurrencyLimiter:
		o := l.Options()
		t.Kind, t.Limit, t.QueueLimit, order = machine.Concurrency, o.PermitLimit, o.QueueLimit, o.QueueOrder
	case *core.TokenBucket:
		o := l.Options()
		t.Kind, t.Limit, t.QueueLimit, order = machine.TokenBucket, o.TokenLimit, o.QueueLimit, o.QueueOrder
		t.Step, t.Span = o.TokensPerPeriod, int64(o.ReplenishmentPeriod)
	case *core.FixedWindow:
		o := l.Options()
		t.Kind, t.Limit, t.QueueLimit, order = machine.Window, o.PermitLimit, o.QueueLimit, o.QueueOrder
		t.Step, t.Span = 1, int64(o.Window)
		if o.Calendar != (core.Calendar{}) {
			t.Calendar = &machine.Calendar{Calendar: calendar.Calendar(o.Calendar)} // see placed
		}
	case *core.SlidingWindow:
		o := l.Options()
		t.Kind, t.Limit, t.QueueLimit, order = machine.Window, o.PermitLimit, o.QueueLimit, o.QueueOrder
		t.Step, t.Span = o.SegmentsPerWindow, int64(o.Window)
	default: // unlimited
		t.Kind, t.Limit = machine.Concurrency, math.MaxInt
	}
	switch order {
	case core.NewestFirst:
		t.Mode |= machine.NewestFirst
	case core.FairShare:
		t.Mode |= machine.FairShare
	}
	return t, nil
}

// placed returns the terms of windows of the calendar, if instant 0 is at a Unix time in nanoseconds.
func placed(t *machine.Terms, zero int64) *machine.Terms {
	p := *t
	p.Calendar = &machine.Calendar{Calendar: t.Calendar.Calendar, Zero: zero}
	p.Enter(0)
	return &p
}

func newLimiter(t *machine.Terms) *limiter {
	m := &limiter{alarm: machine.Never}
	switch t.Kind {
	case machine.TokenBucket:
		m.Start(new(machine.Bucket), t, 0)
	case machine.Window:
		m.Start(new(machine.Segments), t, 0)
	default:
		m.Start(new(machine.Permits), t, 0)
	}
	return m
}

// grant returns the latest grant, of n permits, as a refund wants it.
func (m *limiter) grant(now int64, n int) machine.Grant {
	a := m.Answer(now)
	return machine.Grant{Permits: n, At: now, Missing: a.Missing, FullAt: a.FullAt}
}

// giveBack undoes a grant: a refund of a rate, a release of what was held.
func (m *limiter) giveBack(now int64, g machine.Grant) {
	if m.Terms().Kind == machine.Concurrency {
		m.Release(now, g.Permits)
	} else {
		m.settle(now, g, 0)
	}
}

// settle corrects what a grant of a rate has cost to n permits.
func (m *limiter) settle(now int64, g machine.Grant, n int) {
	if n == g.Permits {
		return
	}
	m.Advance(now)
	m.Settle(now, g, n)
}

// scaled returns a limit times a factor, 2, 1 or a half; its queue stays. Half of an odd rate of a bucket is the same
// permits in twice the time; any other half is rounded down, to at least 1.
func scaled(l spec.Limit, factor float64) spec.Limit {
	times := func(n int) int {
		v := float64(n) * factor
		if v >= math.MaxInt {
			return math.MaxInt
		}
		return max(int(v), 1)
	}
	if l.Kind == spec.Unlimited || l.Kind == spec.Blocked {
		return l
	}
	if factor < 1 && l.Permits%2 == 1 && l.Kind == spec.TokenBucket && l.Per <= math.MaxInt64/2 {
		l.Per *= 2
	} else {
		l.Permits = times(l.Permits)
	}
	if l.Burst > 0 {
		l.Burst = times(l.Burst)
	}
	return l
}
