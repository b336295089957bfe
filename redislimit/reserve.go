package redislimit

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Reserve takes permits of a rate limit, for all processes. If they are not available, it takes them as a debt in the store, and
// [core.Delay] of the lease says when they come: nobody else can take them. Act after that time. Reserve does not wait for permits, and
// nothing runs for a reservation. QueueLimit bounds what this process has reserved and what its callers wait for.
//
// Refund before that time returns the permits; Settle does nothing before it. Close ends the reservations whose time has not come.
// Reservations of all processes are served in the order in which they were made. A reservation goes before callers of Acquire that wait
// already, because those ask for their permits when they come. Under a Calendar, a reservation that would have to wait is rejected. Reserve
// of a concurrency limit fails.
func (e *Limiter) Reserve(permits int) core.Lease {
	if e.options.Store != nil && e.kind == kindConcurrency {
		return core.Fail(errNoRate)
	}
	req := &request{e: e, operation: operation{permits: permits}, reserves: true}
	l, _ := e.acquire(context.Background(), req) //nolint:forbidigo // it does not wait for permits
	return l
}

// reserveLocked records a reservation whose permits come later. at is when the reply came.
func (e *Limiter) reserveLocked(r *request, at time.Time) {
	r.grant = grant{
		e: e, limits: e.limits, certain: int64(r.permits), stamp: r.result.stamp,
		from: later(at, r.result.wait), permits: r.permits, lost: r.result.lost,
	}
	e.reserved = append(e.reserved, &r.grant)
}

// pendingLocked reports whether the permits of a reservation have not come, and it has not ended.
func (g *grant) pendingLocked() bool {
	g.e.settleReservedLocked(time.Now())
	return slices.Contains(g.e.reserved, g)
}

// settleReservedLocked counts the reservations whose time has come as granted.
func (e *Limiter) settleReservedLocked(now time.Time) {
	e.reserved = slices.DeleteFunc(e.reserved, func(g *grant) bool {
		due := !now.Before(g.from)
		if due {
			e.granted.Add(1)
		}
		return due
	})
}

// queuedLocked returns how many permits are reserved or waited for.
func (e *Limiter) queuedLocked(now time.Time) int {
	e.settleReservedLocked(now)
	n := e.queue.Queued()
	for _, g := range e.reserved {
		n += g.permits
	}
	return n
}

// cancelLocked ends a reservation whose time has not come, and returns the task that returns its permits.
func (e *Limiter) cancelLocked(g *grant) *task {
	e.reserved = slices.DeleteFunc(e.reserved, func(other *grant) bool { return other == g })
	g.certain = 0
	return e.task(giveOp(int64(g.permits)+g.lost, g.stamp))
}

// endReservedLocked ends the reservations of more than some permits whose time has not come.
func (e *Limiter) endReservedLocked(more int) {
	now := time.Now()
	e.settleReservedLocked(now)
	for _, g := range slices.Clone(e.reserved) {
		if g.permits > more {
			e.addLocked(e.cancelLocked(g), now)
		}
	}
}

// reserveIn reserves permits of Options.Local.
func reserveIn(local core.Limiter, permits int) core.Lease {
	if r, ok := local.(core.Reserver); ok {
		return r.Reserve(permits)
	}
	return local.TryAcquire(permits)
}
