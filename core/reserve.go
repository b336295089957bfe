package core

import (
	"time"

	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

// Reserve takes permits now, or promises them for later. It does not wait. The request takes the place in
// the queue that an Acquire would take, so QueueLimit applies. If the lease is acquired, [Delay] in its
// metadata says when the permits become available if nothing changes: act after that time. If it is not
// acquired, its Err is the error that Acquire would have returned: a *[RejectedError] if the queue has no
// room, [ErrClosed], an error that matches [ErrPermitsExceedLimit], or [ErrNegativePermits].
//
// A reservation needs no goroutine and no timer. Waiters and reservations are served in one order. If an Update or a
// Refund moves the queue, reservations move too, but the Delay in their metadata does not change. A reservation ends
// before its permits become available if the limiter is closed, if an Update lowers the limit below its permits, or if
// newer requests evict it under [NewestFirst] or [FairShare]. It then holds nothing, but its Acquired still returns
// true, and its holder is not notified.
//
// Before the permits become available, Refund takes the reservation out of the queue, so later requests are served
// sooner. Settle does nothing then; to change the number of permits, refund the lease and reserve again. Once the
// permits are available, the lease can be refunded or settled like other leases, but only once. Release does nothing.
// Statistics counts the permits of a reservation in Queued until they become available, and the lease in Granted from
// then on.
//
// Under [FairShare] a reservation belongs to the zero [Flow], and Delay is a lower bound. Under manual replenishment
// there is no Delay. With a [Calendar], Reserve does not reserve; like TryAcquire, it takes permits now or is
// rejected. Reserve(0) reserves nothing, and its Delay is the time until one permit is available.
func (r *rate) Reserve(permits int) Lease {
	if k, _ := r.try(permits, true); k.Acquired() {
		return k.delayed(0)
	}
	return r.reserveSlow(permits)
}

// reservation is a lease whose permits have not become available when it is made. Its waiter has no goroutine.
type reservation struct {
	handle
	extra
	by    *rate  // the limiter
	w     waiter // its lease is set when its permits have become available or its wait has ended without them
	delay int64  // below 0: unknown
	spent bool   // it was settled to 0, or after its permits had become available
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

// delayKnown returns what [Delay] says of its leases; false if it is unknown.
func (k *reservation) delayKnown() (time.Duration, bool) { return time.Duration(k.delay), k.delay >= 0 }

// release does nothing.
func (k *reservation) release(Lease) {}

func (k *reservation) window(s *settings) int64 { return s.owner.window(s) }

// settle settles a reservation. Before its permits become available, it can only be refunded.
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
	r.concludeLocked() // its permits may have become available at this time
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
