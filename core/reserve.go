package core

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// Reserver is a rate limiter that can promise permits for later. The rate limiters of this package are
// Reservers. A [ChainedLimiter], a [Switch], [WithReason] and [Shadow] have a Reserve that works if the
// limiters below are Reservers.
type Reserver interface {
	// Reserve takes permits now or reserves them, without waiting: see [TokenBucket.Reserve].
	Reserve(permits int) Lease
}

// Delay is set on a lease of Reserve: the time from the call until its permits come, or 0 if they were
// available. It is exact if nothing changes. It is a lower bound under [FairShare], and may be one if very
// many requests wait.
var Delay = NewMetadataKey[time.Duration]("DELAY")

// Reserve takes permits now, or promises them for later. It does not wait. The request takes the place in
// the queue that an Acquire would take, so QueueLimit applies. If the lease is acquired, [Delay] in its
// metadata says when the permits come if nothing changes: act after that time. If it is not acquired, its
// Err is the error that Acquire would have returned: a *[RejectedError] if the queue has no room,
// [ErrClosed], an error that matches [ErrPermitsExceedLimit], or [ErrNegativePermits].
//
// A reservation needs no goroutine and no timer. Waiters and reservations are served in one order. What
// moves the queue, such as an Update or a Refund, moves reservations too, but their Delay does not change.
// A reservation ends before its permits come if the limiter is closed, if an Update lowers the limit below
// its permits, or if newer requests evict it under [NewestFirst] or [FairShare]. It then holds nothing, but its
// Acquired still returns true, and its holder is not notified.
//
// Before the permits come, Refund takes the reservation out of the queue, so later requests are served
// sooner, and Settle does nothing: to change the number of permits, refund the lease and reserve again.
// After the permits have come, both work as for other leases, but only once. Release does nothing.
// Statistics counts the permits of a reservation in Queued until they come, and the lease in Granted from
// then on.
//
// Under [FairShare] a reservation belongs to the zero [Flow], and Delay is a lower bound. Under manual
// replenishment there is no Delay. With a [Calendar] Reserve does not reserve: like TryAcquire it takes permits
// now, or is rejected. Reserve(0) reserves nothing, and its Delay is the time until one permit is available.
func (r *rate) Reserve(permits int) Lease {
	if k, _ := r.try(permits, true); k.Acquired() {
		return k.delayed(0)
	}
	return r.reserveSlow(permits)
}

// reservation is a lease whose permits have not come when it is made. Its waiter has no goroutine.
type reservation struct {
	handle
	extra
	by    *rate  // the limiter
	w     waiter // its lease is set when its permits have come or its wait has ended without them
	delay int64  // below 0: unknown
	spent bool   // it was settled to 0, or after its permits had come
}

func (r *rate) reserveSlow(n int) Lease {
	switch {
	case n < 0:
		return r.failure(negative, 0)
	case r.settings.Load() == nil:
		return r.failure(closed, 0)
	}
	now := r.lockAndServe()
	defer func() { r.unlockAndWake(now) }()
	switch {
	case r.closed:
		return r.failure(closed, 0)
	case n == 0:
		return r.probeLocked(now)
	}
	s := r.settings.Load()
	if s.Calendar != nil { // windows that nobody looks at may be skipped, with what is reserved in them
		l := r.answerLocked(r.m.Try(now, n), n)
		if l.Acquired() {
			return l.delayed(0)
		}
		return l
	}
	a := r.m.Admit(now, n, machine.Never, fair.Flow{}, false)
	if a.Outcome != machine.Waiting {
		l := r.answerLocked(a, n)
		if l.Acquired() && !s.Manual() {
			return l.delayed(0)
		}
		return l
	}
	k := &reservation{by: r, delay: unknown}
	if s.Timed() {
		k.delay = until(r.m.ReadyAt(now, n), now)
	}
	k.handle.s.Store(s)
	k.handle.x = &k.extra
	k.extra.owner = k
	k.w.N, k.w.Reserved = n, true
	l := newLease(&k.handle, reserved, n, r.m.Available(), unknown, 0)
	r.m.Enqueue(now, &k.w)
	return l
}

// probeLocked reserves nothing.
func (r *rate) probeLocked(now int64) Lease {
	s := r.settings.Load()
	if a, ok := r.m.TryQuietly(now, 0); ok {
		l := r.answerLocked(a, 0)
		if s.Manual() {
			return l
		}
		return l.delayed(0)
	}
	r.granted++
	l := r.leaseLocked(r.m.Answer(now), 0)
	if s.Manual() {
		return l
	}
	return l.delayed(until(r.m.ReadyAt(now, 0), now))
}

// delayed returns the lease with a Delay.
func (l Lease) delayed(d int64) Lease {
	if d == 0 && l.outcome() == granted {
		l.bits ^= uint64(granted ^ reserved)
		return l
	}
	return l.With(Delay.With(time.Duration(d)))
}

// delay returns what [Delay] says; false if the lease is of no reservation or it is unknown.
func (l Lease) delay() (time.Duration, bool) {
	if l.outcome() != reserved {
		return 0, false
	}
	if r, ok := l.owner().(*reservation); ok {
		return time.Duration(r.delay), r.delay >= 0
	}
	return 0, true
}

// release does nothing.
func (k *reservation) release(Lease) {}

func (k *reservation) window(s *settings) int64 { return s.owner.window(s) }

// settle settles a reservation. Before its permits come, it can only be refunded.
func (k *reservation) settle(l Lease, n int) Lease {
	r := k.by
	now := r.lockAndServe()
	defer func() { r.unlockAndWake(now) }()
	if k.w.Queued() {
		if n > 0 {
			return l
		}
		k.spent = true
		r.m.Cancel(now, &k.w)
		return l.replacement(&l.settings().shared, granted, 0, 0)
	}
	r.concludeLocked() // its permits may have come at this instant
	if k.spent || !k.w.Value.lease.Acquired() {
		return l
	}
	k.spent = true
	taken, meta := k.w.Value.lease, l.copyExtra().meta
	if k.delay >= 0 {
		meta = mergeMetadata(meta, []Metadata{Delay.With(time.Duration(k.delay))})
	}
	return r.settleTakenLocked(now, taken.With(meta...), n)
}

// reserve is l.Reserve.
func reserve(l Limiter, permits int) Lease {
	if r, ok := l.(Reserver); ok {
		return r.Reserve(permits)
	}
	return Fail(fmt.Errorf("core: %s is no Reserver", describe(l)))
}

// Reserve grants the permits immediately.
func (u *unlimited) Reserve(permits int) Lease {
	l := u.TryAcquire(permits)
	if !l.Acquired() {
		return l
	}
	return l.delayed(0)
}

// Reserve reserves the permits in all limiters, or in none: see [TokenBucket.Reserve]. The Delay is the
// largest of the limiters' delays. If a limiter is no [Reserver], the lease is not acquired, and its error
// names that limiter. After Close the error is [ErrClosed].
//
// The reservations are in the limiters, so the chain's Close does not end them: refund the lease, or close the
// limiters. The chain's Granted counts the lease immediately. Its Queued, the sum of the limiters', counts the
// permits too until they come.
func (c *ChainedLimiter) Reserve(permits int) Lease {
	if l, ok := c.check(permits); !ok {
		return l
	}
	longest, known := time.Duration(0), true // until a limiter does not say when its permits come
	for _, l := range c.limiters {
		if _, ok := l.(Reserver); !ok {
			return reserve(l, permits)
		}
	}
	l := c.ask(permits, func(l Limiter, permits int) Lease {
		k := reserve(l, permits)
		d, ok := Delay.From(k)
		longest, known = max(longest, d), known && ok
		return k
	})
	switch {
	case l.rejected():
		c.rejected.Add(1)
	case l.Acquired() && known:
		return l.With(Delay.With(longest))
	case l.Acquired():
		return l.without(Delay.name) // that of one limiter is not that of all
	}
	return l
}

// Reserve is the limiter's, if it is a [Reserver].
func (r *reasoned) Reserve(permits int) Lease { return r.explain(reserve(r.Limiter, permits)) }

// Reserve is TryAcquire: a request that would have had to wait is granted and [Shadowed].
func (s *shadow) Reserve(permits int) Lease {
	l := s.TryAcquire(permits)
	if !l.Acquired() {
		return l
	}
	return l.delayed(0)
}
