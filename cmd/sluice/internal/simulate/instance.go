package simulate

import (
	"math"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/machine"
	"github.com/sluice-go/sluice/spec"
)

// instance is one limiter in virtual time: that of one key of one step. Instants are nanoseconds since the first
// request, at which windows are anchored.
type instance struct {
	machine.Machine[*visit]

	alarm  int64  // the instant of the earliest event that is to look at the queue
	grants uint64 // numbers them, for refunds
}

// terms returns what a machine has to know of a limit, from the options that core would have.
func terms(l spec.Limit) (*machine.Terms, error) {
	limiter, err := l.New("")
	if err != nil {
		return nil, err
	}
	t := new(machine.Terms)
	order := core.OldestFirst
	switch l := limiter.(type) {
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
	case *core.SlidingWindow:
		o := l.Options()
		t.Kind, t.Limit, t.QueueLimit, order = machine.Window, o.PermitLimit, o.QueueLimit, o.QueueOrder
		t.Step, t.Span = o.SegmentsPerWindow, int64(o.Window)
	default: // unlimited
		t.Kind, t.Limit = machine.Concurrency, math.MaxInt
	}
	if order == core.NewestFirst {
		t.Mode |= machine.NewestFirst
	}
	return t, nil
}

func newInstance(t *machine.Terms) *instance {
	m := &instance{alarm: machine.Never}
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

// grant notes a grant, as a refund will want it.
func (m *instance) grant(now int64) machine.Grant {
	m.grants++
	g := machine.Grant{Number: m.grants, Permits: 1, At: now}
	if b, ok := m.Account().(*machine.Bucket); ok {
		g.Level, g.Lack = b.Level(m.Terms()), b.Lack()
	}
	return g
}

// giveBack undoes a grant: a refund of a rate, a release of what was held.
func (m *instance) giveBack(now int64, g machine.Grant) {
	if m.Terms().Kind == machine.Concurrency {
		m.Release(now, g.Permits)
	} else {
		m.Advance(now)
		m.Settle(now, g, 0, m.grants)
	}
}

// scaled returns a limit times a factor, 2, 1 or a half; its queue stays. A bucket's permits that have no whole half come in
// twice the time; what has none else is rounded down, to 1 at least.
func scaled(l spec.Limit, factor float64) spec.Limit {
	times := func(n int) int {
		v := float64(n) * factor
		if v >= math.MaxInt {
			return math.MaxInt
		}
		return max(int(v), 1)
	}
	if l.Kind == spec.Unlimited {
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
