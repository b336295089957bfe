package redislimit

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// FencingToken is a number that grows with every concurrency lease of a Key, for a resource
// that rejects a smaller token than it has seen. It is at least the server's microseconds since
// 1970, so the server may forget it. A failover to a server whose clock is behind may repeat tokens.
var FencingToken = core.NewMetadataKey[uint64]("FENCING_TOKEN")

// lease is a concurrency lease of this process. The engine's mutex guards its fields, except for id, token and e.
type lease struct {
	e       *Limiter
	id      int64 // id in the server's set, with the limiter's holder
	token   int64
	permits int64
	until   time.Time // then it is lost, if it is not renewed
	loss    *time.Timer
	end     end
	version int64 // how often it was settled
	ends    map[*context.CancelCauseFunc]struct{}
	place   int // index in keeper.leases
}

// end is how a lease ended.
type end uint8

const (
	live end = iota
	released
	lost
)

func (e end) cause() error {
	if e == lost {
		return ErrLeaseLost
	}
	return context.Canceled
}

// loseIfLate is called by the timer. It ends a lease that was not renewed in time.
func (l *lease) loseIfLate() {
	l.e.mu.Lock()
	defer l.e.unlock()
	if !time.Now().Before(l.until) {
		l.e.keeper.endLocked(l, lost)
	}
}

// holding is the Granter of a concurrency limiter's core.Lease: it has the lease that the store counts. A core.Lease of zero permits has
// none, and may be settled up several times, so that it has several. The engine's mutex guards the leases.
type holding struct {
	decision

	e      *Limiter
	leases []*lease
}

// append appends the leases.
func (h *holding) append(all []*lease) []*lease {
	h.e.mu.Lock()
	defer h.e.unlock()
	return append(all, h.leases...)
}

// findLocked returns the index of a lease of that many permits, below 0 if there is none.
func (h *holding) findLocked(permits int) int {
	return slices.IndexFunc(h.leases, func(l *lease) bool { return l.permits == min(int64(permits), maxLimit) })
}

// Release implements what core calls when the lease of that many permits is released. It also releases a lease that was lost, because
// the server may still count it. It returns when the store has replied or Timeout is over.
func (h *holding) Release(permits int) {
	h.e.perform(func() *task {
		i := h.findLocked(permits)
		if i < 0 {
			return nil
		}
		l := h.leases[i]
		h.leases = slices.Delete(h.leases, i, i+1)
		h.e.keeper.endLocked(l, released)
		return h.e.keeper.release(l)
	})
}

// Settle implements [core.Granter]. A settlement that the store does not confirm takes effect at the lease's next renewal.
func (h *holding) Settle(had, now int) int {
	switch {
	case had == 0:
		return h.charge(now)
	case now == 0:
		h.Release(had)
		return 0
	}
	got := had
	h.e.perform(func() *task {
		i := h.findLocked(had)
		if i < 0 || h.leases[i].end != live {
			return nil
		}
		l := h.leases[i]
		got = now
		l.version++
		l.permits = min(int64(now), maxLimit)
		return h.e.keeper.renew(l)
	})
	return got
}

// charge takes permits, available or not, and returns them. If the store does not reply, it returns 0: nothing was taken.
func (h *holding) charge(permits int) int {
	got := 0
	h.e.perform(func() *task {
		return h.e.keeper.chargeLocked(min(int64(permits), maxLimit), func(l *lease) {
			got = permits
			h.leases = append(h.leases, l)
		})
	})
	return got
}

// Context returns a context for work under a lease. It ends
//
//   - when ctx ends;
//   - when l is lost, with [ErrLeaseLost] as its cause. It ends before another process can be granted
//     the permits, by this machine's monotonic clock. The lease of a chain is lost when one of its
//     parts is lost;
//   - when l is released, with [context.Canceled].
//
// If l was lost or released before, the context is done. If l cannot be lost, because it is the
// lease of a rate limiter for example, Context returns ctx.
//
// If the server's clock steps forward by more than the rest of a lease, the permits are available
// to others immediately. Then the context ends only at the next renewal, at most a third of the TTL
// later.
//
// The context's resources are freed when ctx or the lease ends.
func Context(ctx context.Context, l core.Lease) context.Context {
	_, holds := FencingToken.From(l)
	if !holds || !l.Acquired() {
		return ctx
	}
	var all []*lease
	for _, by := range backdoor.Core[core.Limiter, core.Lease]().Granters(l) {
		if h, ok := by.(*holding); ok {
			all = h.append(all)
		}
	}
	ending, cancel := context.WithCancelCause(ctx)
	if len(all) == 0 {
		cancel(context.Canceled) // it was released
		return ending
	}
	for _, l := range all {
		if how := l.watch(&cancel); how != live {
			cancel(how.cause())
		}
	}
	context.AfterFunc(ending, func() {
		for _, l := range all {
			l.unwatch(&cancel)
		}
	})
	return ending
}

// watch has cancel called when the lease ends. It returns how the lease has ended, if it has.
func (l *lease) watch(cancel *context.CancelCauseFunc) end {
	l.e.mu.Lock()
	defer l.e.unlock()
	if l.end == live {
		if l.ends == nil {
			l.ends = make(map[*context.CancelCauseFunc]struct{})
		}
		l.ends[cancel] = struct{}{}
	}
	return l.end
}

func (l *lease) unwatch(cancel *context.CancelCauseFunc) {
	l.e.mu.Lock()
	defer l.e.unlock()
	delete(l.ends, cancel)
}
