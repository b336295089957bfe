package redislimit

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/machine"
)

// Reserve takes permits of a rate limit, for all processes. If they are not available, it takes a ticket for them, as a waiter does, and
// [core.Delay] of the lease says when they become available. Act after that time. Reserve does not wait for permits, and nothing runs
// for a reservation.
//
// Waiters and reservations of all processes are served in the order in which they came, and QueueLimit bounds what this process has
// reserved and what its callers wait for. Refund before the time has come returns the permits, and those behind it in this process are
// served sooner; Settle does nothing before it. Close ends the reservations whose time has not come. Under a Calendar, a reservation is
// rejected if its window is later than the tenth after the current one. Reserve of a concurrency limit fails.
func (e *Limiter) Reserve(permits int) core.Lease {
	if e.options.Store != nil && e.kind == kindConcurrency {
		return core.Fail(errNoRate)
	}
	l, _ := e.acquire(context.Background(), permits, demand{reserves: true}) //nolint:forbidigo // it does not wait for permits
	return l
}

// reserveLocked decides a request that is going to wait in the queue: nobody waits for it.
func (e *Limiter) reserveLocked(r *request, now time.Time) {
	at := e.instant(now)
	r.result = result{left: e.cache.available(now), reset: e.cache.reset(now)}
	if ready := e.queue.ReadyAt(at, r.permits); ready != machine.Never {
		r.result.wait = microseconds(time.Duration(ready - at))
	}
	r.grant = &grant{e: e, current: e.limits, waiter: r.waiter}
	e.decideLocked(r, granted)
}

// pendingLocked reports whether the permits of a reservation have not come, and it has not ended.
func (g *grant) pendingLocked() bool {
	g.e.redeemLocked()
	return g.waiter != nil && g.waiter.Queued()
}

// cancelLocked ends a reservation whose time has not come, and returns the task that ends when its permits are returned.
func (e *Limiter) cancelLocked(g *grant) *task {
	e.leaveLocked(g.waiter)
	e.balanceLocked()
	return e.task(readOp())
}

// reserveIn reserves permits of Options.Local.
func reserveIn(local core.Limiter, permits int) core.Lease {
	if r, ok := local.(core.Reserver); ok {
		return r.Reserve(permits)
	}
	return local.TryAcquire(permits)
}
