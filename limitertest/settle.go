package limitertest

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/core"
)

// stale reports whether the lease was granted before a reset.
func (p *play) stale(h *holding) bool { return !p.m.holds && h.resets != p.resets }

// changes has the model settle a lease for n permits. It reports whether the model can predict that.
func (p *play) changes(h *holding, n int) bool {
	by, holds := n-h.Permits(), p.m.holds
	fresh := holds || h.at.Equal(time.Now())
	stale := p.stale(h)
	switch {
	case holds && p.m.timed && h.released:
		return false
	case !holds && (h.spent || h.released):
		return false // each counts
	case !fresh && (p.Manual || p.owed || h.at.Add(p.Refill).After(time.Now())):
		return false // a part may be returned
	case by > 0 && (stale || !fresh):
		return false // a part is as a new one
	case by < 0 && (stale || !fresh), h.spent, h.released:
		by = 0
	}
	p.m.take(by)
	p.owed = p.owed || p.m.inDebt()
	p.m.serve()
	return true
}

// refundAny refunds a lease.
func (p *play) refundAny() { p.refund(p.pick()) }

func (p *play) refund(h *holding) {
	if h == nil || !p.reaches("refunds") || p.m.closed || !p.changes(h, 0) {
		return
	}
	h.spent, h.released = true, true
	h.Refund()
	if p.m.holds {
		h.Refund()
		h.With(copied.With(1)).Refund()
	}
	p.compare()
	h.Release()
	p.compare()
}

// settle settles a lease for another number of permits.
func (p *play) settle() {
	if h := p.pick(); h != nil {
		n := []int{0, 1, h.Permits() - 1, h.Permits(), h.Permits() + 1, more(p.m.limit, 2), -1, math.MaxInt}
		p.settleTo(h, n[p.random.IntN(len(n))])
	}
}

func (p *play) settleTo(h *holding, n int) {
	if !p.reaches("settlements") {
		return
	}
	dead, wanted, huge := h.spent || h.released && p.m.holds, max(n, 0), n == math.MaxInt
	if huge && p.unlimited() || !p.changes(h, wanted) {
		return
	}
	if dead {
		h.Settle(n) // it has ended, and nothing changes
		p.compare()
		return
	}
	settled := p.settles(h.With(copied.With(7)), n)
	if wanted == h.Permits() {
		h.Lease = settled // which may be the lease itself
	} else {
		h.spent = true
		p.hold(&holding{Lease: settled, at: h.at, resets: h.resets, released: h.released})
	}
	p.compare()
	if huge {
		p.hugeDebt(p.holdings[len(p.holdings)-1])
	}
}

// owe makes a debt, if that is possible.
func (p *play) owe() {
	if n := p.m.available(); n > 0 && p.m.fits(n) && p.m.limit < math.MaxInt/2 {
		debt := 1 + p.random.IntN(5)
		if p.random.IntN(10) == 0 {
			debt = math.MaxInt
		}
		p.try(n)
		p.settleTo(p.holdings[len(p.holdings)-1], more(n, debt))
	}
}

// hugeDebt settles other leases too for the most there can be, and then the lease h for 1. What is returned of it
// is not certain.
func (p *play) hugeDebt(h *holding) {
	for _, other := range p.holdings {
		if other != h && !other.spent && !other.released && p.changes(other, math.MaxInt) {
			p.settles(other.Lease, math.MaxInt)
		}
	}
	p.compare()
	p.try(1)
	p.settles(h.Lease, 1)
	if got := p.l.Available(); got < 0 || got >= p.m.limit {
		p.errorf("Available() after a lease was settled for math.MaxInt, then for 1: %d, want less than %d", got, p.m.limit)
	}
	p.over = true
}

// update changes the limit, or tries to.
func (p *play) update() {
	if !p.reaches("updates") {
		return
	}
	limit := []int{-1, 0, p.m.limit + 1, p.m.limit + 3, p.m.limit - 1, 1, p.Limit}[p.random.IntN(7)]
	if limit < 1 || p.m.closed {
		p.badUpdate(limit)
		return
	}
	if p.m.timed && len(p.m.waiting) > 0 {
		return
	}
	was := p.m.limit
	p.m.limit = limit
	for _, c := range slices.Clone(p.m.waiting) {
		if c.n > limit {
			p.m.leave(c)
			c.expect(core.ErrPermitsExceedLimit)
		}
	}
	p.m.serve()
	p.updates(limit)
	if p.m.timed { // a bucket keeps the tokens that it has, a window counts what is taken
		kept := max(p.m.spent+limit-was, 0)
		if p.l.Available() == max(limit-max(kept, p.m.held), 0) {
			p.m.spent = kept
		}
		p.over = true // which of the two it is may not show
	}
	p.compare()
}

func (p *play) badUpdate(limit int) {
	switch err := p.Update(p.l, limit); {
	case err == nil:
		p.fatalf("Update to a limit of %d (closed: %v): nil, want an error", limit, p.m.closed)
	case limit > 0 && !errors.Is(err, core.ErrClosed):
		p.fatalf("Update after Close: %v, want core.ErrClosed", err)
	}
	p.compare()
}

// reset resets a rate limiter.
func (p *play) reset() {
	if !p.reaches("resets") || p.m.closed || p.m.holds && len(p.m.waiting) > 0 {
		return
	}
	p.m.spent, p.owed = 0, false
	p.resets++
	p.m.serve()
	p.l.(core.Resetter).Reset()
	p.compare()
	p.over = p.m.holds // of what was granted before, the slot is returned, and the rate does not
	p.late()
}

// settlesByLeases expects no method of the limiter that is never called.
func settlesByLeases(s *subject) {
	t := reflect.TypeOf(s.l)
	for name, form := range map[string]reflect.Type{
		"Refund(core.Lease)":                 reflect.TypeFor[refundsItself](),
		"Settle(core.Lease, int) core.Lease": reflect.TypeFor[settlesItself](),
	} {
		if t.Implements(form) && !inherited(t, form) {
			s.errorf("the limiter has a method %s, which is never called: leases settle themselves; grant them with core.GrantFrom", name)
		}
	}
}

type (
	refundsItself interface{ Refund(lease core.Lease) }
	settlesItself interface {
		Settle(lease core.Lease, permits int) core.Lease
	}
)

// inherited reports whether a limiter has a method because limiters of this module still have it.
func inherited(t, form reflect.Type) bool {
	if !reflect.TypeFor[*core.TokenBucket]().Implements(form) {
		return false
	}
	base := t
	if base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	if base.Kind() == reflect.Struct {
		for i := range base.NumField() {
			if f := base.Field(i); f.Anonymous && (f.Type.Implements(form) || reflect.PointerTo(f.Type).Implements(form)) {
				return true
			}
		}
	}
	path := base.PkgPath()
	return strings.HasPrefix(path, "github.com/sluice-go/sluice/") && !strings.HasSuffix(path, "_test")
}

// settled calls Settle, whatever the lease, and expects it to return immediately.
func (s *subject) settled(l core.Lease, n int) core.Lease {
	start := time.Now()
	got := l.Settle(n)
	s.leases = append(s.leases, got)
	s.atOnce(start, "Settle to %d", n)
	return got
}

// settles has a live grant settled, and expects a lease of n permits in its place.
func (s *subject) settles(l core.Lease, n int) core.Lease {
	before := metadataOf(l)
	got := s.settled(l, n)
	switch want := max(n, 0); {
	case !got.Acquired():
		s.fatalf("Settle of %d permits to %d: not acquired (%v), want a lease of %d", l.Permits(), n, got.Err(), want)
	case got.Permits() != want:
		s.fatalf("Settle of %d permits to %d: a lease of %d, want %d", l.Permits(), n, got.Permits(), want)
	}
	if after := metadataOf(got); !reflect.DeepEqual(after, before) {
		s.errorf("Settle of %d permits to %d: metadata %v, want that of the lease before, %v", l.Permits(), n, after, before)
	}
	return got
}

// copied marks a copy of a lease.
var copied = core.NewMetadataKey[int]("COPY")

// metadataOf returns the lease's metadata, but for names of the limiter's own, by which it
// may know its leases.
func metadataOf(l core.Lease) map[string]any {
	all := map[string]any{}
	for name, value := range l.Metadata() {
		switch name {
		case core.RetryAfter.Name(), core.ReasonPhrase.Name(), core.LimiterName.Name(), core.PermitLimit.Name(),
			core.Remaining.Name(), core.ResetAfter.Name(), core.Window.Name(), copied.Name():
			all[name] = value
		}
	}
	return all
}

// updateKeepsDebt expects a larger limit to pay no more of a debt than it makes room for; of a bucket that keeps
// its tokens only RetryAfter shows it.
func updateKeepsDebt(s *subject) {
	if !s.reaches("settlements") || s.Refill == 0 || s.Manual {
		return
	}
	s.settles(s.empties(), more(s.Limit, 3))
	retry, _ := core.RetryAfter.From(s.refused(1, "with a debt"))
	s.updates(s.Limit + 1)
	if d, _ := core.RetryAfter.From(s.refused(1, "after an Update, with a larger debt")); d != retry {
		s.errorf("RetryAfter with a debt after an Update: %v, before: %v, want the same", d, retry)
	}
}
