package core

import (
	"container/list"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/sluice-go/sluice/internal/wait"
)

// Switch passes requests to another limiter, which you can replace while it is in use: for a limit that
// is switched on and off, or whose kind changes. To change only the numbers of a limiter, call its
// Update instead.
//
// After [Switch.Set], new requests go to the new limiter. Requests that were waiting in the old limiter
// move to the new one, in their order and before later requests, and wait there even if its QueueLimit
// is 0. No request is lost or granted twice, and callers do not notice the change. While the limiter is
// [Blocked], Acquire waits until Set replaces it or ctx is done, and TryAcquire is rejected.
//
// A lease belongs to the limiter that granted it, and Release, Refund and Settle go to that limiter.
// Statistics counts the grants and rejections of the Switch; the other fields are those of the current
// limiter.
//
// It implements [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Reserver], [QuietTrier] and
// [io.Closer], and is safe for concurrent use. Use [As] to find out whether the current limiter is a
// [Replenisher], for example. Create a Switch with [NewSwitch]; requests to the zero value fail with
// [ErrClosed].
type Switch struct {
	now atomic.Pointer[switched] // nil in the zero value; written under mu

	granted, rejected atomic.Uint64

	setting sync.Mutex // held during Set, before mu

	// mu is a leaf: no user code runs under it. It guards what follows, and the places of all requests.
	mu     sync.Mutex
	closed bool                   // now does not change any more
	asking list.List              // requests in the limiter in use, the oldest first
	line   list.List              // requests that come after a change, in their order; the first one asks
	inLine atomic.Int64           // the length of line
	moving int                    // how many of line waited in an old limiter
	moved  chan struct{}          // closed when moving is 0 again
	former []weak.Pointer[engine] // of old limiters of this package, while their leases need them
}

// switched is a limiter while it is in use.
type switched struct {
	Limiter
	over wait.Source // ends when the limiter is exchanged
}

// switchRequest is an Acquire that may wait.
type switchRequest struct {
	place *list.Element
	queue *list.List    // that place is in; nil: none
	turn  chan struct{} // has an element when it is the first of line
	given bool          // turn was sent since the request entered line
	moved bool          // it waited in an old limiter
	moves bool          // counted in moving
}

var errSwitched = errors.New("core: the limiter of a Switch was exchanged")

// granter is on the leases of a Switch whose limiter is none of this package's own four.
var granter = NewMetadataKey[*switchGrant](hiddenName)

type switchGrant struct {
	by    *Switch
	from  *switched
	under *switchGrant // of a Switch in the Switch
}

// NewSwitch returns a Switch that passes requests to l. If l is nil, it uses [Unlimited].
func NewSwitch(l Limiter) *Switch {
	s := new(Switch)
	s.now.Store(&switched{Limiter: orUnlimited(l)})
	return s
}

func orUnlimited(l Limiter) Limiter {
	if isNil(l) {
		return Unlimited()
	}
	return l
}

// Limiter returns the current limiter.
func (s *Switch) Limiter() Limiter {
	if st := s.now.Load(); st != nil {
		return st.Limiter
	}
	return &refusing{ErrClosed}
}

// Unwrap returns the current limiter, for [As].
func (s *Switch) Unwrap() Limiter { return s.Limiter() }

// Set makes l the current limiter. If l is nil, it uses [Unlimited]. Set returns when all waiting
// requests have moved to the new limiter. It does not close the old one. If l is the current limiter
// already, or after Close, Set does nothing.
func (s *Switch) Set(l Limiter) {
	next := &switched{Limiter: orUnlimited(l)}
	s.setting.Lock()
	defer s.setting.Unlock()
	old := s.now.Load()
	if old == nil || identical(old.Limiter, next.Limiter) { // nil: the zero value
		return
	}
	moved, ok := s.exchange(next)
	if !ok {
		return
	}
	old.over.End(errSwitched)
	if moved != nil {
		<-moved
	}
}

// exchange puts next in use, and the requests that wait in the old limiter at the head of the line. It
// returns a channel that is closed once they have been asked again; nil if there are none. It returns false
// if the Switch is closed.
func (s *Switch) exchange(next *switched) (moved <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.formerLocked()
	s.now.Store(next)
	if first := s.line.Front(); first != nil { // it may be asking the old limiter already
		first.Value.(*switchRequest).revokeLocked()
	}
	s.moved = make(chan struct{})
	for p := s.asking.Back(); p != nil; p = s.asking.Back() {
		r := s.asking.Remove(p).(*switchRequest)
		r.place, r.queue = s.line.PushFront(r), &s.line
		r.revokeLocked()
		r.moved, r.moves = true, true
		s.moving++
		s.inLine.Add(1)
	}
	s.nextLocked()
	if s.moving == 0 {
		return nil, true
	}
	return s.moved, true
}

// formerLocked keeps the limiter in use for the leases that it has granted.
func (s *Switch) formerLocked() {
	s.former = slices.DeleteFunc(s.former, func(e weak.Pointer[engine]) bool { return e.Value() == nil })
	if e := engineOf(s.now.Load().Limiter); e != nil && !slices.Contains(s.former, weak.Make(e)) {
		s.former = append(s.former, weak.Make(e))
	}
}

// revokeLocked takes a turn back.
func (r *switchRequest) revokeLocked() {
	r.given = false
	select {
	case <-r.turn:
	default:
	}
}

// limiterFor returns the limiter that r is to ask now that it has its turn, and whether r waited in an old one;
// nil if the turn was taken back.
func (s *Switch) limiterFor(r *switchRequest) (st *switched, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.given {
		return nil, false
	}
	return s.now.Load(), r.moved
}

// nextLocked gives the first of the line its turn.
func (s *Switch) nextLocked() {
	if first := s.line.Front(); first != nil {
		if r := first.Value.(*switchRequest); !r.given {
			r.given = true
			r.turn <- struct{}{}
		}
	}
}

// leaveLocked takes r out of the list that it is in.
func (s *Switch) leaveLocked(r *switchRequest) {
	if r.queue == nil {
		return
	}
	r.queue.Remove(r.place)
	if r.queue == &s.line {
		s.inLine.Add(-1)
		if r.moves {
			r.moves = false
			s.moving--
			if s.moving == 0 {
				close(s.moved)
			}
		}
		s.nextLocked()
	}
	r.queue = nil
}

// enter puts a new request where it belongs and returns the limiter to ask; nil if it has to wait for its
// turn.
func (s *Switch) enter(r *switchRequest) *switched {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line.Len() > 0 {
		r.place, r.queue = s.line.PushBack(r), &s.line
		s.inLine.Add(1)
		return nil
	}
	r.place, r.queue = s.asking.PushBack(r), &s.asking
	return s.now.Load()
}

// leave ends a request.
func (s *Switch) leave(r *switchRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(r)
}

// entered notes that r, the first of the line, waits in the limiter st: it is the next one's turn.
func (s *Switch) entered(r *switchRequest, st *switched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.queue == &s.line && r.given && st == s.now.Load() {
		s.leaveLocked(r)
		r.place, r.queue = s.asking.PushBack(r), &s.asking
	}
}

// answered ends a request that st has answered. It returns false if the limiter was exchanged before.
func (s *Switch) answered(r *switchRequest, st *switched) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st != s.now.Load() {
		return false
	}
	s.leaveLocked(r)
	return true
}

// switchContext ends with the caller's context and with the exchange. A limiter asks for its Done when the
// request starts to wait.
type switchContext struct {
	*wait.Call
	waits func()
}

func (c *switchContext) Done() <-chan struct{} {
	c.waits()
	return c.Call.Done()
}

// begin returns the call of a source for ctx, and the context to wait with. To derive a context asks for the
// Done of its parent. If ctx is a Switch's, that must not yet happen: the request does not wait yet.
func begin(ctx context.Context, s *wait.Source) (*wait.Call, context.Context) {
	outer, ok := ctx.(*switchContext)
	if !ok {
		call := s.Begin(ctx)
		return call, call
	}
	call := s.Begin(outer.Call)
	return call, &switchContext{call, outer.waits}
}

// TryAcquire calls TryAcquire of the current limiter.
func (s *Switch) TryAcquire(permits int) Lease {
	st := s.now.Load()
	if st == nil {
		return (&refusing{ErrClosed}).TryAcquire(permits)
	}
	k := s.mark(st, st.Limiter.TryAcquire(permits))
	s.count(k)
	return k
}

// TryQuietly is like TryAcquire, but does not count a rejection: see the function [TryQuietly].
func (s *Switch) TryQuietly(permits int) (Lease, bool) {
	st := s.now.Load()
	if st == nil || s.inLine.Load() > 0 {
		return Lease{}, false
	}
	k, ok := TryQuietly(st.Limiter, permits)
	if !ok {
		return Lease{}, false
	}
	s.granted.Add(1)
	return s.mark(st, k), true
}

// Reserve calls Reserve of the current limiter, if it is a [Reserver]; otherwise the lease is not
// acquired, and its error says so. After Set the reservation stays with the old limiter.
func (s *Switch) Reserve(permits int) Lease {
	st := s.now.Load()
	if st == nil {
		return (&refusing{ErrClosed}).TryAcquire(permits)
	}
	k := s.mark(st, reserve(st.Limiter, permits))
	s.count(k)
	return k
}

// Acquire takes permits from the current limiter, and waits if that limiter's Acquire waits or if it
// is [Blocked]. If Set replaces the limiter, the request moves to the new one. A done context, the
// race of a grant and a cancellation, and the errors are as described at [Limiter].
func (s *Switch) Acquire(ctx context.Context, permits int) (Lease, error) {
	return s.acquire(ctx, permits, bounded)
}

func (s *Switch) acquireWaiting(ctx context.Context, permits int) (Lease, error) {
	return s.acquire(ctx, permits, beyond)
}

func (s *Switch) acquire(ctx context.Context, permits int, q queueing) (Lease, error) {
	if permits < 0 {
		return Lease{bits: uint64(negative)}, ErrNegativePermits
	}
	if err := ctx.Err(); err != nil {
		return Fail(err), err
	}
	if s.now.Load() == nil {
		return Lease{bits: uint64(closed)}, ErrClosed
	}
	if k, ok := s.TryQuietly(permits); ok {
		return k, nil
	}
	k, err := s.acquireSlow(ctx, permits, q)
	s.count(k)
	return k, err
}

func (s *Switch) acquireSlow(ctx context.Context, permits int, q queueing) (Lease, error) {
	r := &switchRequest{turn: make(chan struct{}, 1)}
	defer s.leave(r) // also if a limiter panics
	st := s.enter(r)
	for {
		for st == nil {
			select {
			case <-r.turn:
				var moved bool
				if st, moved = s.limiterFor(r); moved {
					q = beyond
				}
			case <-ctx.Done():
				return Fail(ctx.Err()), ctx.Err()
			}
		}
		k, err := s.ask(ctx, st, r, permits, q)
		if s.answered(r, st) {
			return s.mark(st, k), st.over.Explain(ctx, err)
		}
		switch {
		case err == nil: // granted while the limiter was exchanged
			refund(st.Limiter, k)
		case ctx.Err() != nil:
			return Fail(ctx.Err()), ctx.Err()
		case errors.Is(err, ErrRejected), errors.Is(err, ErrPermitsExceedLimit): // before the exchange
			return k, err
		}
		if err := ctx.Err(); err != nil {
			return Fail(err), err
		}
		st = nil
	}
}

// ask has the limiter decide a request, until it is exchanged.
func (s *Switch) ask(ctx context.Context, st *switched, r *switchRequest, permits int, q queueing) (Lease, error) {
	call, under := begin(ctx, &st.over)
	defer call.End()
	asked := &switchContext{call, func() {
		s.entered(r, st)
		under.Done() // a Switch around this one learns it, too
	}}
	if b, ok := st.Limiter.(*shut); ok {
		return b.wait(asked, permits) //nolint:contextcheck // it is ctx, until the exchange
	}
	if q == beyond {
		return acquireWaiting(asked, st.Limiter, permits) //nolint:contextcheck // it is ctx, until the exchange
	}
	k, err := st.Limiter.Acquire(asked, permits) //nolint:contextcheck // it is ctx, until the exchange
	return checkedAnswer(st.Limiter, k, err)
}

// mark keeps on a lease who has granted it, where the lease itself does not tell.
func (s *Switch) mark(st *switched, k Lease) Lease {
	if !k.Acquired() || engineOf(st.Limiter) != nil {
		return k
	}
	if _, ok := st.Limiter.(*unlimited); ok {
		return k
	}
	under, _ := granter.From(k)
	return k.With(granter.With(&switchGrant{s, st, under}))
}

func (s *Switch) count(k Lease) {
	switch {
	case k.Acquired():
		s.granted.Add(1)
	case k.rejected():
		s.rejected.Add(1)
	}
}

// Refund undoes a grant that was not used, in the limiter that granted it: see [Settler].
func (s *Switch) Refund(l Lease) { s.Settle(l, 0) }

// Settle corrects the cost of a grant, in the limiter that granted it: see [Settler].
func (s *Switch) Settle(l Lease, permits int) Lease {
	st := s.now.Load()
	if st == nil || !l.Acquired() {
		return l
	}
	if g, _ := granter.From(l); g != nil {
		if g.by != s {
			return l
		}
		settled := settle(g.from.Limiter, l.With(granter.With(g.under)), permits)
		if settled.Acquired() {
			again := *g
			again.under, _ = granter.From(settled)
			settled = settled.With(granter.With(&again))
		}
		return settled
	}
	if e := l.owner(); e != nil && s.used(e) {
		return e.Settle(l, permits)
	}
	if _, ok := st.Limiter.(*unlimited); ok {
		return settle(st.Limiter, l, permits)
	}
	return l
}

// used reports whether the limiter e was in use.
func (s *Switch) used(e *engine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return engineOf(s.now.Load().Limiter) == e || slices.Contains(s.former, weak.Make(e))
}

// Available returns the Available of the current limiter.
func (s *Switch) Available() int { return s.Limiter().Available() }

// Statistics returns the Granted and Rejected of the Switch, and the other fields of the current
// limiter.
func (s *Switch) Statistics() Statistics {
	inner := (&view{s.Limiter()}).Statistics()
	inner.Granted, inner.Rejected = s.granted.Load(), s.rejected.Load()
	return inner
}

// IdleFor calls IdleFor of the current limiter. A limiter that is not an [Idler] is never idle.
func (s *Switch) IdleFor() (time.Duration, bool) {
	if s.now.Load() == nil {
		return 0, false
	}
	return (&view{s.Limiter()}).IdleFor()
}

// Close closes the current limiter and returns its error, or returns nil if that limiter is not an
// [io.Closer]. Waiting and later requests then fail as that limiter's do, with [ErrClosed] for those
// of this package. The Switch stays closed: a later Set does nothing. Limiters that Set replaced
// before stay open.
func (s *Switch) Close() error {
	s.mu.Lock()
	s.closed = true
	l := s.Limiter()
	s.mu.Unlock()
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// String returns a human-readable line: that of the current limiter.
func (s *Switch) String() string { return "switch: " + describe(s.Limiter()) }

func (s *Switch) itself() Limiter { return s }

// Apply changes the limit in place: it is [Apply] of the current limiter, and [Switch.Set]. If it returns an error,
// nothing has changed.
func (s *Switch) Apply(o Options) error {
	l, err := Apply(s.Limiter(), o)
	if err == nil {
		s.Set(l)
	}
	return err
}
