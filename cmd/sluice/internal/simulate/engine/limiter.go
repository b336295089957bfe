package engine

import (
	"errors"
	"fmt"
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

	alarm int64 // the time of the earliest event that will look at the queue
}

var ways = backdoor.Core[core.Limiter, core.Lease]()

// kind is what the limiters of a rule begin with.
type kind struct {
	terms   *machine.Terms
	account machine.Account // a copy is each limiter's
}

// kindOf returns that of the limiter that core would make of a limit.
func kindOf(l spec.Limit) (kind, error) {
	made, err := l.New("")
	if err != nil {
		return kind{}, err
	}
	switch l.Kind {
	case spec.Blocked:
		return kind{}, errors.New("a blocked limit rejects every request: there is nothing to simulate")
	case spec.Paused:
		return kind{}, errors.New("a paused limit grants nothing: there is nothing to simulate")
	case spec.Unlimited:
		return kind{&machine.Terms{Limit: math.MaxInt, Mode: machine.Held}, new(machine.Permits)}, nil
	}
	t, a := ways.Terms(made)
	if t == nil {
		return kind{}, fmt.Errorf("a %T cannot be simulated", made)
	}
	return kind{t, a}, nil
}

// placed returns the kind with its calendar windows, if it has any, placed as if instant 0 were at a Unix time, in nanoseconds.
func (k kind) placed(zero int64) kind {
	if k.terms.Calendar == nil {
		return k
	}
	p := *k.terms
	p.Calendar = &machine.Calendar{Calendar: p.Calendar.Calendar, Zero: zero}
	p.Enter(0)
	return kind{&p, k.account}
}

// grant returns the latest grant, of n permits, as undo takes it.
func (m *limiter) grant(now int64, n int) machine.Grant {
	a := m.Answer(now)
	return machine.Grant{Permits: n, At: now, Missing: a.Missing, FullAt: a.FullAt}
}

// undo undoes a grant: it refunds the permits of a rate limiter, and releases permits that are held.
func (m *limiter) undo(now int64, g machine.Grant) {
	if m.Terms().Held() {
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
