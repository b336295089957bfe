package core_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

const leaseLimit = 20

// moody is a limiter of another package. Its Settle does what its mood says.
type moody struct {
	mood byte
	out  int
}

const (
	settlesIt   = iota
	cannot      // returns had
	panics      // after it has changed nothing
	moods       = 3
	mostPermits = 6
)

func (m *moody) Available() int { return max(leaseLimit-m.out, 0) }

func (m *moody) TryAcquire(n int) core.Lease {
	if max(n, 1) > m.Available() {
		return core.Reject()
	}
	m.out += n
	return core.GrantFrom(m, n)
}

func (m *moody) Acquire(_ context.Context, n int) (core.Lease, error) {
	l := m.TryAcquire(n)
	return l, l.Err()
}

func (m *moody) Settle(had, now int) int {
	switch m.mood {
	case cannot:
		return had
	case panics:
		panic("moody")
	}
	m.out += now - had
	return now
}

func (m *moody) Release(permits int) { m.out -= permits }

// leaseKind is who granted a lease.
type leaseKind int

const (
	ofSlots leaseKind = iota
	ofMoody
	ofChain
	kinds
)

// modelLease is what a lease and its copies hold.
type modelLease struct {
	kind         leaseKind
	permits      int // that it says
	slots, moody int // that it holds
	ended        bool
}

// leaseWorld is limiters, and the leases that they have granted.
type leaseWorld struct {
	t        *testing.T
	slots    *core.ConcurrencyLimiter
	moody    *moody
	limiters [][]core.Limiter // by kind
	swapped  *core.Switch
	current  leaseKind

	real      []core.Lease
	model     []*modelLease
	slotsHeld int
	moodyHeld int
}

func newLeaseWorld(t *testing.T) *leaseWorld {
	t.Helper()
	w := &leaseWorld{t: t, slots: concurrency(t, leaseLimit, 0), moody: new(moody)}
	both := chain(t, w.slots, w.moody)
	w.limiters = [][]core.Limiter{
		{w.slots, core.WithReason(w.slots, "full"), core.NewSwitch(w.slots)},
		{w.moody, core.WithReason(w.moody, "full"), core.NewSwitch(core.WithReason(w.moody, "full"))},
		{both, chain(t, core.WithReason(w.slots, "full"), core.NewSwitch(w.moody)), core.NewSwitch(both)},
	}
	w.swapped = core.NewSwitch(w.slots)
	return w
}

// grant asks a limiter for permits.
func (w *leaseWorld) grant(l core.Limiter, kind leaseKind, n int) {
	fits := func(held int) bool { return max(n, 1) <= leaseLimit-held }
	want := (kind == ofMoody || fits(w.slotsHeld)) && (kind == ofSlots || fits(w.moodyHeld))
	if !want && w.moody.mood == panics && kind == ofChain {
		return // its undoing would panic, which the tests of chains are about
	}
	lease := l.TryAcquire(n)
	require.Equal(w.t, want, lease.Acquired())
	if !want {
		return
	}
	m := &modelLease{kind: kind, permits: n}
	if kind != ofMoody {
		m.slots = n
	}
	if kind != ofSlots {
		m.moody = n
	}
	w.slotsHeld += m.slots
	w.moodyHeld += m.moody
	w.add(lease, m)
}

func (w *leaseWorld) add(l core.Lease, m *modelLease) {
	w.real, w.model = append(w.real, l), append(w.model, m)
}

// drop ends a lease, and returns what it holds.
func (w *leaseWorld) drop(m *modelLease) {
	w.slotsHeld -= m.slots
	w.moodyHeld -= m.moody
	m.slots, m.moody, m.ended = 0, 0, true
}

func (w *leaseWorld) release(i int) {
	m := w.model[i]
	if !m.ended && (m.permits > 0 || m.kind == ofChain) {
		w.drop(m)
	}
	w.real[i].Release()
}

// settle settles a lease, or refunds it.
func (w *leaseWorld) settle(i, n int, refund bool) {
	m, l := w.model[i], w.real[i]
	next, panicked := w.predict(m, n)
	settle := func() {
		if refund {
			l.Refund()
			return
		}
		got := l.Settle(n)
		require.True(w.t, got.Acquired())
		require.Equal(w.t, next.permits, got.Permits())
		if next == m {
			require.Equal(w.t, l, got)
		}
		w.add(got, next)
	}
	if panicked {
		require.PanicsWithValue(w.t, "moody", settle)
		return
	}
	settle()
	if refund && next != m {
		w.drop(next) // nobody has it; it is of no permits
	}
}

// predict plays a settlement. It returns what the lease is then, which is m if it stays as it is.
func (w *leaseWorld) predict(m *modelLease, n int) (next *modelLease, panicked bool) {
	nothing := m.permits == 0 && m.kind != ofChain // it does not end
	if m.ended && !nothing || n == m.permits && (n > 0 || m.kind != ofChain) {
		return m, false
	}
	asksMoody := m.kind != ofSlots && m.moody != n
	if asksMoody && w.moody.mood == panics {
		if !nothing {
			w.drop(m)
		}
		return m, true
	}
	if m.kind == ofMoody && w.moody.mood == cannot {
		return m, false
	}
	next = &modelLease{kind: m.kind, permits: n, ended: m.kind == ofChain && n == 0}
	if m.kind != ofMoody {
		next.slots = n
	}
	if m.kind != ofSlots {
		next.moody = n
		if asksMoody && w.moody.mood == cannot && n > 0 {
			next.moody = m.moody
		}
	}
	w.slotsHeld += next.slots
	w.moodyHeld += next.moody
	if !nothing {
		w.drop(m)
	}
	return next, false
}

func (w *leaseWorld) check() {
	available(w.t, w.slots, max(leaseLimit-w.slotsHeld, 0))
	require.Equal(w.t, w.moodyHeld, w.moody.out)
}

// Whatever is called on copies of leases, each is ended once, by who granted it, and nothing is lost.
func FuzzLeases(f *testing.F) {
	f.Add([]byte{0, 2, 3, 3, 0, 5, 1, 0, 0, 4, 0, 0, 5, 0, 0})
	f.Add([]byte{0, 1, 4, 6, 1, 0, 3, 0, 2, 6, 2, 0, 3, 0, 1, 4, 0, 0})
	f.Add([]byte{0, 2, 4, 6, 1, 0, 3, 0, 2, 4, 1, 0, 6, 2, 0, 0, 2, 2, 5, 1, 0, 3, 2, 1})
	f.Add([]byte{1, 0, 3, 2, 0, 0, 7, 2, 0, 1, 0, 3, 3, 1, 0, 5, 0, 0, 3, 1, 2})
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := newLeaseWorld(t)
		for ; len(ops) >= 3; ops = ops[3:] {
			a, b := int(ops[1]), int(ops[2])
			n := b % mostPermits
			switch op := ops[0] % 8; {
			case op == 0:
				kind := leaseKind(a) % kinds
				w.grant(w.limiters[kind][b/mostPermits%3], kind, n)
			case op == 1:
				w.grant(w.swapped, w.current, n)
			case op == 6:
				w.moody.mood = byte(a % moods)
			case op == 7:
				w.current = leaseKind(a) % kinds
				w.swapped.Set(w.limiters[w.current][0])
			case len(w.real) == 0:
			case op == 2:
				i := a % len(w.real)
				w.add(w.real[i].With(core.LimiterName.With("copy")), w.model[i])
			case op == 3:
				w.settle(a%len(w.real), n, false)
			case op == 4:
				w.settle(a%len(w.real), 0, true)
			case op == 5:
				w.release(a % len(w.real))
			}
			w.check()
		}
		w.moody.mood = settlesIt
		for i := range w.real {
			w.release(i)
		}
		w.check()
		require.Zero(t, w.slotsHeld+w.moodyHeld)
	})
}
