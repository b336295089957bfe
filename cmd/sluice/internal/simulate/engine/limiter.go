package engine

import (
	"errors"
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/spec"
)

// limiter is the limiter of one key of one rule, in virtual time. Instants are nanoseconds since the first request. Windows are
// anchored at the first request, except calendar windows.
type limiter struct {
	*machine.Machine[*visit]

	alarm int64 // the instant of the earliest event that will look at the queue
}

var ways = backdoor.Core[core.Lease]()

// terms returns the terms of the limiter that core would make of a limit.
func terms(l spec.Limit) (*machine.Terms, error) {
	made, err := l.New("")
	if err != nil {
		return nil, err
	}
	switch l.Kind {
	case spec.Blocked:
		return nil, errors.New("a blocked limit rejects every request: there is nothing to simulate")
	case spec.Paused:
		return nil, errors.New("a paused limit grants nothing: there is nothing to simulate")
	}
	if t := ways.Terms(made); t != nil {
		return t, nil
	}
	return &machine.Terms{Kind: machine.Concurrency, Limit: math.MaxInt}, nil // unlimited
}

// placed returns the terms of calendar windows whose instant 0 is at a Unix time, in nanoseconds.
func placed(t *machine.Terms, zero int64) *machine.Terms {
	p := *t
	p.Calendar = &machine.Calendar{Calendar: t.Calendar.Calendar, Zero: zero}
	p.Enter(0)
	return &p
}

// grant returns the latest grant, of n permits, as undo takes it.
func (m *limiter) grant(now int64, n int) machine.Grant {
	a := m.Answer(now)
	return machine.Grant{Permits: n, At: now, Missing: a.Missing, FullAt: a.FullAt}
}

// undo undoes a grant: it refunds the permits of a rate limiter, and releases permits that are held.
func (m *limiter) undo(now int64, g machine.Grant) {
	if m.Terms().Kind == machine.Concurrency {
		m.Release(now, g.Permits)
		return
	}
	m.Advance(now)
	m.Settle(now, g, 0)
}

// Scaled returns what makes a limit so many times as large, or half of it; its queue stays. Half of an odd rate of a bucket
// is the same permits in twice the time; any other half is rounded down, to at least 1.
func Scaled(factor float64) func(spec.Limit) spec.Limit {
	times := func(n int) int {
		v := float64(n) * factor
		if v >= math.MaxInt {
			return math.MaxInt
		}
		return max(int(v), 1)
	}
	return func(l spec.Limit) spec.Limit {
		switch {
		case l.Kind == spec.Unlimited || factor == 1:
			return l
		case factor < 1 && l.Permits%2 == 1 && l.Kind == spec.TokenBucket && l.Per <= math.MaxInt64/2:
			l.Per *= 2
		default:
			l.Permits = times(l.Permits)
		}
		if l.Burst > 0 {
			l.Burst = times(l.Burst)
		}
		return l
	}
}
