package redislimit

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// FencingToken is a number that grows with every concurrency lease of a Key, for a resource
// that refuses who comes with a smaller one than it has seen. It is at least the server's
// microseconds since 1970, so that the server may forget it; a failover to a server whose
// clock is behind may repeat tokens.
var FencingToken = core.NewMetadataKey[uint64]("FENCING_TOKEN")

// held is a concurrency lease of this process. The engine's mutex guards what changes.
type held struct {
	e     *engine
	token int64
	n     int
	until time.Time // then it is lost, if it is not renewed
	end   end
	ends  map[*context.CancelCauseFunc]struct{} // of the contexts that end with it
	place int                                   // in leases.all

	tryUntil time.Time // released, and the store is to be told until then
}

// end is how a lease ended.
type end uint8

const (
	live end = iota
	released
	lost
)

// leases are those that this process holds. The engine's mutex guards it.
type leases struct {
	all    []*held
	since  time.Time // if there are none: since when
	untold []*held   // released, and the store does not know
	keeper *keeper   // nil: nothing is to be kept
	timer  *time.Timer
	alarm  time.Time // when the timer rings: the earliest that a lease may be lost
}

// metadata returns what a lease is recognized by; it has a name of its own, so that the
// lease of a chain has those of all its parts.
func (h *held) metadata() core.Metadata {
	return core.NewMetadataKey[*held](fmt.Sprintf("REDIS_LEASE_%d_%x", h.token, uint64(h.e.holder))).With(h)
}

// String returns a line for a person.
func (h *held) String() string {
	return fmt.Sprintf("lease %d of %q", h.token, h.e.shared.Key)
}

// Context returns a context that ends when ctx does, and when a concurrency lease of this
// package is lost that is l, or a part of it if l is a chain's, with [ErrLeaseLost] as its
// cause: before the permits can be another's, by this machine's monotonic clock. When l is
// released it ends with [context.Canceled]. If l was lost or released it has ended already.
// Of a lease that can't be lost, as a rate's or another limiter's, it is ctx itself.
//
// It frees what it took when ctx or the lease ends.
func Context(ctx context.Context, l core.Lease) context.Context {
	var all []*held
	for _, v := range l.Metadata() {
		if h, ok := v.(*held); ok {
			all = append(all, h)
		}
	}
	if len(all) == 0 || !l.Acquired() {
		return ctx
	}
	ending, cancel := context.WithCancelCause(ctx)
	for _, h := range all {
		h.e.mu.Lock()
		how := h.end
		if how == live {
			if h.ends == nil {
				h.ends = make(map[*context.CancelCauseFunc]struct{})
			}
			h.ends[&cancel] = struct{}{}
		}
		h.e.mu.Unlock()
		if how != live {
			cancel(how.cause())
		}
	}
	context.AfterFunc(ending, func() {
		for _, h := range all {
			h.e.mu.Lock()
			delete(h.ends, &cancel)
			h.e.mu.Unlock()
		}
	})
	return ending
}

func (e end) cause() error {
	if e == lost {
		return ErrLeaseLost
	}
	return context.Canceled
}

// lifetime returns how long a lease is sure to live after a call that was sent: a tenth is
// for clocks that differ.
func (e *engine) lifetime() time.Duration { return e.shared.TTL - e.shared.TTL/10 }

// holdLocked notes a lease that was granted by a call sent then.
func (e *engine) holdLocked(o *op, sent time.Time) *held {
	l := &e.leases
	h := &held{e: e, token: o.answer.stamp.at, n: int(o.n), until: sent.Add(e.lifetime()), place: len(l.all)}
	l.all = append(l.all, h)
	e.keepLocked()
	e.lossAlarmLocked()
	return h
}

// endLocked takes a lease out of those that are held, and returns what is to be called when
// the mutex is free, with how it ended.
func (e *engine) endLocked(h *held, how end) map[*context.CancelCauseFunc]struct{} {
	if h.end != live {
		return nil
	}
	h.end = how
	l := &e.leases
	last := len(l.all) - 1
	l.all[h.place], l.all[last].place = l.all[last], h.place
	l.all[last] = nil
	l.all = l.all[:last]
	if last == 0 {
		l.since = time.Now()
		if l.timer != nil {
			l.timer.Stop()
			l.timer, l.alarm = nil, time.Time{}
		}
		if l.keeper != nil {
			l.keeper.poke()
		}
	}
	ends := h.ends
	h.ends = nil
	return ends
}

// release gives the permits back: it returns when the store has answered, or Budget is
// over.
func (h *held) release() {
	e := h.e
	o := &op{kind: opGive, n: h.token, lease: h}
	e.mu.Lock()
	wasLive := h.end == live
	ends := e.endLocked(h, released)
	o.decided = !wasLive || !e.giveLeaseLocked(o)
	e.unlockFor(o, len(ends) == 0)
	for cancel := range ends {
		(*cancel)(context.Canceled)
	}
	e.await(o)
}

// giveLeaseLocked has the store told that a lease was released: by the next call, or, while
// it is away, by the keeper, and then it reports false.
func (e *engine) giveLeaseLocked(o *op) bool {
	o.lease.tryUntil = o.lease.until
	if e.breaker.down {
		e.tellAgainLocked(o.lease)
		return false
	}
	o.due = time.Now().Add(e.shared.Budget)
	e.askLocked(o)
	return true
}

// await waits for the answer to o, for Budget at most.
func (e *engine) await(o *op) {
	if o.done == nil {
		return
	}
	timer := time.NewTimer(time.Until(o.due))
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}

// lossAlarmLocked sets the timer for the lease that is lost first if none is renewed.
func (e *engine) lossAlarmLocked() {
	l := &e.leases
	var first time.Time
	if len(l.all) > 0 && l.alarm.IsZero() {
		// None can be lost before this, and when it rings it looks again.
		for _, h := range l.all {
			first = earlier(h.until, first)
		}
		l.alarm = first
		l.timer = time.AfterFunc(time.Until(first), e.loseLate)
	}
}

// loseLate is what the timer does: leases that were not renewed in time are lost.
func (e *engine) loseLate() {
	now := time.Now()
	var ends []map[*context.CancelCauseFunc]struct{}
	e.mu.Lock()
	e.leases.timer, e.leases.alarm = nil, time.Time{}
	for _, h := range slices.Clone(e.leases.all) {
		if !now.Before(h.until) {
			ends = append(ends, e.endLocked(h, lost))
		}
	}
	e.lossAlarmLocked()
	e.unlock()
	for _, m := range ends {
		for cancel := range m {
			(*cancel)(ErrLeaseLost)
		}
	}
}

// spentKey is what a rate's lease is recognized by.
var spentKey = core.NewMetadataKey[*spent]("REDIS_GRANT")

// spent is a rate's grant: the operation that was granted.
type spent struct {
	e        *engine
	o        *op
	refunded atomic.Bool
}

// String returns a line for a person.
func (s *spent) String() string { return fmt.Sprintf("%d of %q", s.o.n, s.e.shared.Key) }

// Refund undoes a grant of this limiter that was not used, at most once per lease, and
// serves who waits in this process. A rate's permits come back while they still count: a
// window's until they would have come back, a bucket's until it would have been full again
// had nothing more been taken. A concurrency lease is released. A lease that [Shared].Local
// granted is refunded there. It returns when the store has answered, or Budget is over; a
// refund that the store did not hear of is not tried again.
func (e *engine) Refund(l core.Lease) {
	if !l.Acquired() || e.shared.Store == nil {
		return
	}
	if s, ok := spentKey.From(l); ok && s.e == e {
		e.refund(s)
		return
	}
	for _, v := range l.Metadata() {
		if h, ok := v.(*held); ok && h.e == e {
			l.Release()
			return
		}
	}
	if r, ok := e.shared.Local.(core.Refunder); ok {
		r.Refund(l)
	}
}

func (e *engine) refund(s *spent) {
	if !s.refunded.CompareAndSwap(false, true) {
		return
	}
	o := giveBack(s.o.n, s.o.answer.stamp)
	e.mu.Lock()
	e.refusals = nil
	if o.decided = e.breaker.down; !o.decided {
		o.due = time.Now().Add(e.shared.Budget)
		e.askLocked(o)
	}
	e.unlockFor(o, true)
	e.await(o)
}
