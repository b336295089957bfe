package redislimit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// FencingToken is a number that grows with every concurrency lease of a Key, for a resource
// that refuses a smaller one than it has seen. It is at least the server's microseconds since
// 1970, so that the server may forget it; a failover to a server whose clock is behind may
// repeat tokens.
var FencingToken = core.NewMetadataKey[uint64]("FENCING_TOKEN")

// leases are the concurrency leases that this process holds. The engine's mutex guards it.
type leases struct {
	all      []*held
	since    time.Time // if there are none: since when
	last     int64     // id that was given out
	releases []release // to be sent to the server again
	renewer  *renewer  // nil: there is nothing to renew or to release
	timer    *time.Timer
	alarm    time.Time // when it rings: the earliest that a lease may be lost; zero: it does not
	clock    clock
}

// held is a concurrency lease of this process. The engine's mutex guards what changes.
type held struct {
	e       *engine
	id      int64 // in the server's set, with the limiter's holder
	token   int64
	permits int64
	until   time.Time // then it is lost, if it is not renewed
	end     end
	current *holding // of the lease that is not spent
	ends    map[*context.CancelCauseFunc]struct{}
	place   int // in leases.all
}

// end is how a lease ended.
type end uint8

const (
	live end = iota
	released
	lost
)

// holding is what a core.Lease knows of its held lease: each Settle makes another one.
type holding struct{ held *held }

// String returns a human-readable line.
func (p *holding) String() string {
	return fmt.Sprintf("lease %d of %q", p.held.token, p.held.e.shared.Key)
}

// grant returns the lease that holds h; m are its metadata.
func (p *holding) grant(permits int, m ...core.Metadata) core.Lease {
	// The name is its own, so that the lease of a chain has those of all its parts.
	name := fmt.Sprintf("REDIS_LEASE_%d_%x", p.held.token, p.held.e.holder)
	return core.Grant(permits, p.release, append(m, core.NewMetadataKey[*holding](name).With(p))...)
}

// Context returns a context that ends when ctx does, and, with [ErrLeaseLost] as its cause, when
// l is a concurrency lease of this package that is lost, or a chain's lease of which a part is
// lost: before others can be granted the permits, by this machine's monotonic clock. When l is
// released it ends with [context.Canceled]. If l was lost or released already, it is done. For a
// lease that cannot be lost, such as that of a rate limiter, Context returns ctx.
//
// If the server's clock steps forward by more than the rest of a lease, its permits are
// available at once, and the context ends at the limiter's next call of the store: a third of
// the TTL later at most.
//
// The context's resources are freed when ctx or the lease ends.
func Context(ctx context.Context, l core.Lease) context.Context {
	var all []*held
	for _, v := range l.Metadata() {
		if p, ok := v.(*holding); ok {
			all = append(all, p.held)
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

// lifetime returns how long a lease certainly lives after a call was sent: a tenth of its TTL is
// for clocks that differ.
func (e *engine) lifetime() time.Duration { return e.shared.TTL - e.shared.TTL/10 }

// holdLocked records the lease that was granted to r by a call sent then.
func (e *engine) holdLocked(r *request, sent time.Time) *held {
	l := &e.leases
	h := &held{e: e, id: r.id, token: r.answer.token, permits: r.permits, until: sent.Add(e.lifetime()), place: len(l.all)}
	h.current = &holding{h}
	l.all = append(l.all, h)
	e.renewLocked()
	e.setLossAlarmLocked()
	return h
}

// endLocked ends a lease, and its contexts once the mutex is free.
func (e *engine) endLocked(h *held, how end) {
	if h.end != live {
		return
	}
	h.end = how
	for cancel := range h.ends {
		e.canceled = append(e.canceled, func() { (*cancel)(how.cause()) })
	}
	h.ends = nil
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
		if l.renewer != nil {
			l.renewer.wakeUp()
		}
	}
}

// release gives the permits back. It returns when the store has answered, or Budget is over.
func (p *holding) release() { p.end() }

// end is release; it reports false if the lease was spent, released or lost before.
func (p *holding) end() bool {
	h, e := p.held, p.held.e
	e.mu.Lock()
	if h.current != p || h.end != live {
		e.mu.Unlock()
		return false
	}
	e.endLocked(h, released)
	r := e.releaseLocked(h)
	e.finish(r)
	return true
}

// releaseLocked releases a lease at the store: by the next call or, if the store is
// unreachable, by the renewer.
func (e *engine) releaseLocked(h *held) *request {
	r := newRequest(op{code: opRelease, id: h.id})
	r.lease = h
	e.beginLocked(r, time.Now())
	if r.stage == decided {
		e.releaseAgainLocked(release{id: h.id, known: true, until: h.until})
	}
	return r
}

// setLossAlarmLocked sets the timer to the earliest that a lease may be lost.
func (e *engine) setLossAlarmLocked() {
	l := &e.leases
	if len(l.all) == 0 || !l.alarm.IsZero() {
		return // renewals may have made it too early, then it is set again when it rings
	}
	first := slices.MinFunc(l.all, func(a, b *held) int { return a.until.Compare(b.until) })
	l.alarm = first.until
	l.timer = time.AfterFunc(time.Until(l.alarm), e.loseLate)
}

// loseLate is what the timer does: leases that were not renewed in time are lost.
func (e *engine) loseLate() {
	e.mu.Lock()
	defer e.unlock()
	now := time.Now()
	e.leases.timer, e.leases.alarm = nil, time.Time{}
	for _, h := range slices.Clone(e.leases.all) {
		if !now.Before(h.until) {
			e.endLocked(h, lost)
		}
	}
	e.setLossAlarmLocked()
}
