package redislimit

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// decision is what a lease says of how it was decided. Most leases are never asked, so the metadata is made for the first who asks.
type decision struct {
	limits   *limits
	left     int           // permits that were available after it
	reset    int64         // microseconds until all permits are back
	window   time.Duration // length of a calendar window
	reserved bool          // it is a grant of Reserve
	wait     int64         // microseconds until a reservation's permits are available
	token    int64         // token of a concurrency lease; 0 if there is none
	metadata atomic.Pointer[[]core.Metadata]
}

// set sets what a decided request says.
func (d *decision) set(r *request) {
	d.limits, d.left, d.reset, d.window = r.limits, r.result.left, r.result.reset, r.limits.windowOf(r.result.window)
	d.reserved, d.wait = r.reserves && r.stage == granted, r.result.wait
	if r.lease != nil {
		d.token = r.lease.token
	}
}

// Metadata implements what core calls when a lease is asked for metadata.
func (d *decision) Metadata() []core.Metadata { return d.once(nil) }

// once returns the metadata, after what comes first.
func (d *decision) once(first []core.Metadata) []core.Metadata {
	if made := d.metadata.Load(); made != nil {
		return *made
	}
	m := append(d.limits.appendMetadata(first, d.window), core.Remaining.With(min(d.left, d.limits.limit)))
	if d.limits.rate() {
		m = append(m, core.ResetAfter.With(lasts(d.reset)))
	}
	if d.reserved {
		m = append(m, core.Delay.With(lasts(d.wait)))
	}
	if d.token != 0 {
		m = append(m, FencingToken.With(uint64(d.token)))
	}
	d.metadata.Store(&m)
	return m
}

// rejection is a rejected request, as its lease says it.
type rejection struct {
	core.RejectedError
	decision
}

// Metadata implements what core calls when a lease is asked for metadata.
func (r *rejection) Metadata() []core.Metadata {
	first := []core.Metadata{core.ReasonPhrase.With(r.Reason)}
	if r.RetryAfter > 0 {
		first = append(first, core.RetryAfter.With(r.RetryAfter))
	}
	return r.once(first)
}

// describe returns a lease whose metadata is that of d.
func describe(l core.Lease, d interface{ Metadata() []core.Metadata }) core.Lease {
	backdoor.Core[core.Limiter, core.Lease]().Describe(l, d)
	return l
}

// leaseOf returns the lease of a decided request, unless Unavailable decides it.
func (e *Limiter) leaseOf(req *request) core.Lease {
	switch req.stage {
	case granted:
		return e.grantOf(req)
	case rejected:
		req.why.set(req)
		return describe(core.Fail(&req.why.RejectedError), req.why)
	}
	return core.Fail(req.err)
}

func (e *Limiter) grantOf(req *request) core.Lease {
	g := req.grant
	if g == nil { // otherwise it counts when its permits become available
		e.granted.Add(1)
		if e.kind == kindConcurrency {
			h := &holding{e: e}
			if req.lease != nil {
				h.leases = []*lease{req.lease}
			}
			h.set(req)
			return describe(core.GrantFrom(h, req.permits), h)
		}
		g = &grant{e: e, current: req.limits, certain: int64(req.permits), stamp: req.result.stamp}
	}
	g.set(req)
	return describe(core.GrantFrom(g, req.permits), g)
}
