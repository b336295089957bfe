package httplimit

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// visit is what one request has met on its way through the wrappers of one Limits. It is
// the context that the request has inside of the first of them, so that the others find it.
// There is one for each request, so it is small.
type visit struct {
	context.Context // the request's, outside

	terms  *terms
	exempt bool // no policy applies; set before anybody else sees the visit

	// known: others than the goroutine that made the visit may have found it. Until then the
	// mutex is not taken: most requests have been asked for all their permits by then.
	known bool

	fields bool       // a wrapper takes header fields off where they do not belong; guarded by mu
	mu     sync.Mutex // guards what follows; a leaf; see lock
	frames int32      // wrappers that have asked
	first  ask        // of several; without a policy there is none
	more   *more      // nil: all is there already
}

// more is what few visits have.
type more struct {
	asks  []ask // those after the first, in order; it only grows
	quota quota // the header fields that tell of asks
	outer *visit

	lifted atomic.Bool // the request has turned out to be exempt: no bytes are throttled
}

// ask is one policy's part in a visit.
type ask struct {
	policy  *policy
	limiter core.Limiter // the policy's, bound to the request, whatever becomes of the request
	lease   core.Lease
	frame   int32 // the wrapper that asked
	stage   stage
}

// observed is an ask's limiter where there is an Observer.
type observed struct {
	core.Limiter

	since time.Time // of the grant
}

// stage is what has become of an ask. It only moves on.
type stage uint8

const (
	asked    stage = iota // no answer, or no lease
	held                  // the lease is held
	released              // it was released early
	settled               // it was released or refunded for good
	passed                // the policy does not limit this request
)

// has reports whether the request has a lease, which may have been released early.
func (a *ask) has() bool { return a.stage == held || a.stage == released }

// arrival is a visit with the request that carries it: both in one allocation.
type arrival struct {
	visit

	request http.Request
}

// carry returns r with the visit as its context. r may be the arrival's own request already.
func (a *arrival) carry(r *http.Request) *http.Request {
	a.known = true
	a.request = *r.WithContext(&a.visit) // inlined, so the copy in between is on the stack
	return &a.request
}

// copyOf returns a copy of r that may be changed: in the arrival, if there is one.
func (a *arrival) copyOf(r *http.Request) *http.Request {
	if a == nil {
		return copyOf(r)
	}
	a.request = *r
	return &a.request
}

type visitKey struct{}

// Value returns the request's value for key.
func (v *visit) Value(key any) any {
	if key == (visitKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// String says what it is to who prints it, instead of its fields, which others may change.
func (v *visit) String() string { return "a request's context under limits" }

// visiting returns the visit that a request with this context makes to l, or of any Limits,
// the innermost, if l is nil.
func visiting(ctx context.Context, l *Limits) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	for v != nil && l != nil && v.terms.limits != l {
		v, _ = v.Context.Value(visitKey{}).(*visit)
	}
	return v
}

func (v *visit) lock() {
	if v.known {
		v.mu.Lock()
	}
}

func (v *visit) unlock() {
	if v.known {
		v.mu.Unlock()
	}
}

// outer returns, for a check, the visit that the request makes already; else nil.
func (v *visit) outer() *visit {
	if v.more == nil {
		return nil
	}
	return v.more.outer
}

// rest returns what few visits have, to be changed. The mutex is held.
func (v *visit) rest() *more {
	if v.more == nil {
		v.more = new(more)
	}
	return v.more
}

// lift ends all throttling of the request's bytes.
func (v *visit) lift() {
	v.lock()
	defer v.unlock()
	v.rest().lifted.Store(true)
}

// asks returns how many there are. The mutex is held, as for at and each.
func (v *visit) asks() int {
	switch {
	case v.first.policy == nil:
		return 0
	case v.more == nil:
		return 1
	}
	return 1 + len(v.more.asks)
}

// at returns one of the asks. It may move when another is added.
func (v *visit) at(i int) *ask {
	if i == 0 {
		return &v.first
	}
	return &v.more.asks[i-1]
}

// each yields the asks, in order.
func (v *visit) each(yield func(*ask) bool) {
	for i := range v.asks() {
		if !yield(v.at(i)) {
			return
		}
	}
}

// enter notes that the frame asks p, and returns the place of the ask. It reports false if
// the request has been there before.
func (v *visit) enter(frame int32, p *policy) (int, bool) {
	if outer := v.outer(); outer != nil && outer.knows(p) {
		return 0, false
	}
	v.lock()
	defer v.unlock()
	n := v.asks()
	if v.knowsLocked(p) {
		return 0, false
	}
	if n == 0 {
		v.first.policy, v.first.frame = p, frame
	} else {
		more := v.rest()
		more.asks = append(more.asks, ask{policy: p, frame: frame})
	}
	return n, true
}

// nextFrame returns the number of a wrapper that enters now.
func (v *visit) nextFrame() int32 {
	v.lock()
	defer v.unlock()
	v.frames++
	return v.frames - 1
}

func (v *visit) knows(p *policy) bool {
	v.lock()
	defer v.unlock()
	return v.knowsLocked(p)
}

func (v *visit) knowsLocked(p *policy) bool {
	for i := range v.asks() {
		if v.at(i).policy.Name == p.Name {
			return true
		}
	}
	return false
}

// note takes down the answer to the ask at i.
func (v *visit) note(i int, l core.Limiter, lease core.Lease, s stage) {
	v.lock()
	a := v.at(i)
	a.limiter, a.lease, a.stage = l, lease, s
	v.unlock()
}

// last moves the last ask that matches to a stage, and returns it as it was.
func (v *visit) last(to stage, match func(*ask) bool) (ask, bool) {
	v.lock()
	defer v.unlock()
	for i := v.asks() - 1; i >= 0; i-- {
		if a := v.at(i); a.has() && a.stage < to && match(a) {
			was := *a
			a.stage = to
			return was, true
		}
	}
	return ask{}, false
}

// undo refunds all that the request had, last first.
func (v *visit) undo(ctx context.Context) {
	a, ok := v.last(settled, func(*ask) bool { return true })
	if !ok {
		return
	}
	defer v.undo(ctx) // the others too, if what is called here panics
	v.giveBack(ctx, a, true)
}

func (v *visit) undoUnless(ctx context.Context, granted *bool) {
	if !*granted {
		v.undo(ctx)
	}
}

// release releases what the request holds, last first, before its handler has returned.
func (v *visit) release() {
	a, ok := v.last(released, func(*ask) bool { return true })
	if !ok {
		return
	}
	defer v.release()
	v.giveBack(v, a, false)
}

// settle ends what the frame asked for, last first.
func (v *visit) settle(ctx context.Context, frame int32, r *http.Request, status int) {
	if lease, ok := v.settleOnly(frame); ok {
		lease.Release()
		return
	}
	v.settleSlow(ctx, frame, r, status)
}

// settleOnly is the way of most requests: they were asked for one policy's permits, and
// nobody wants to know what becomes of them.
func (v *visit) settleOnly(frame int32) (core.Lease, bool) {
	v.lock()
	defer v.unlock()
	a := &v.first
	if v.asks() != 1 || a.frame != frame || a.stage != held || a.policy.Refund != nil || v.terms.Observer != nil {
		return core.Lease{}, false
	}
	a.stage = settled
	return a.lease, true
}

func (v *visit) settleSlow(ctx context.Context, frame int32, r *http.Request, status int) {
	a, ok := v.last(settled, func(a *ask) bool { return a.frame == frame })
	if !ok {
		return
	}
	defer v.settleSlow(ctx, frame, r, status)
	refund := false
	defer func() { v.giveBack(ctx, a, refund) }()
	refund = a.policy.Refund != nil && a.policy.Refund(r, status)
}

// giveBack refunds or releases the lease of a, which no one else does.
func (v *visit) giveBack(ctx context.Context, a ask, refund bool) {
	if l, ok := a.limiter.(*observed); ok {
		if o := v.terms.Observer; a.stage == held {
			name, lasted := a.policy.Name, time.Since(l.since)
			defer o.Released(ctx, name, lasted)
			defer o.Active(ctx, name, -1)
		}
		a.limiter = l.Limiter
	}
	// Released in any case: a limiter of somebody's own need not know a refund, nor this lease.
	defer a.lease.Release()
	if refund {
		if refunder, ok := a.limiter.(core.Refunder); ok {
			refunder.Refund(a.lease)
		}
	}
}

// holds reports whether the visit has a lease, released early or not.
func (v *visit) holds() bool {
	v.lock()
	defer v.unlock()
	for i := range v.asks() {
		if v.at(i).has() {
			return true
		}
	}
	return false
}

// lease returns one lease for all that the visit holds.
func (v *visit) lease() core.Lease {
	v.lock()
	leases := make([]core.Lease, 0, v.asks())
	for a := range v.each {
		if a.has() {
			leases = append(leases, a.lease)
		}
	}
	v.unlock()
	return combine(leases, v.release)
}

// combine returns a lease whose release is release, with the metadata of the leases, of
// each name the first.
func combine(leases []core.Lease, release func()) core.Lease {
	permits := 0
	var union []core.Metadata
	for _, l := range slices.Backward(leases) { // With and Grant have the later win
		permits = max(permits, l.Permits())
		for name, value := range l.Metadata() {
			union = append(union, core.NewMetadataKey[any](name).With(value))
		}
	}
	return core.Grant(permits, release, union...)
}
