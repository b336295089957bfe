package redislimit

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// FencingToken is a number that grows with every concurrency lease of a Key, for a resource
// that rejects a smaller token than it has seen. It is at least the server's microseconds since
// 1970, so the server may forget it. A failover to a server whose clock is behind may repeat tokens.
var FencingToken = core.NewMetadataKey[uint64]("FENCING_TOKEN")

// lease is a concurrency lease of this process. The engine's mutex guards its fields, except for id, token and e.
type lease struct {
	e        *Limiter
	id       int64 // in the server's set, with the limiter's holder
	token    int64
	permits  int64
	until    time.Time // then it is lost, if it is not renewed
	loss     *time.Timer
	end      end
	released bool  // its release was sent
	version  int64 // how often it was settled
	ends     map[*context.CancelCauseFunc]struct{}
	place    int // in keeper.leases
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

// handle is the part of a core.Lease that identifies its lease. Each Settle increments the version, after which earlier
// handles have no effect.
type handle struct {
	lease   *lease
	version int64
}

func (l *lease) handle() *handle { return &handle{l, l.version} }

// String returns a human-readable line.
func (h *handle) String() string {
	return fmt.Sprintf("lease %d of %q", h.lease.token, h.lease.e.options.Key)
}

func (h *handle) liveLocked() bool { return h.version == h.lease.version && h.lease.end == live }

// grant returns the core.Lease with the handle and the metadata m.
func (h *handle) grant(permits int, m ...core.Metadata) core.Lease {
	// Each handle has a metadata name of its own, so that the lease of a chain has the handles of all its parts.
	name := fmt.Sprintf("REDIS_LEASE_%d_%x", h.lease.token, h.lease.e.keeper.holder)
	return core.Grant(permits, func() { h.release() }, append(m, core.NewMetadataKey[*handle](name).With(h))...)
}

// release releases the lease, even one that was lost, because the server may still count it. It returns when the store has
// replied or Timeout is over, and reports whether this call released the lease.
func (h *handle) release() bool {
	k := &h.lease.e.keeper
	return h.lease.e.perform(func() *operation {
		if h.version != h.lease.version || h.lease.released {
			return nil
		}
		h.lease.released = true
		k.endLocked(h.lease, released)
		return k.release(h.lease)
	}) != nil
}

// settle changes the number of permits, and returns the handle that replaces h, or nil if h has no effect any more.
func (h *handle) settle(permits int) (next *handle) {
	l := h.lease
	l.e.perform(func() *operation {
		if !h.liveLocked() {
			return nil
		}
		l.version++
		l.permits = min(int64(permits), maxLimit)
		next = l.handle()
		return l.e.keeper.renew(l)
	})
	return next
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
	var all []*lease
	for _, v := range l.Metadata() {
		if h, ok := v.(*handle); ok {
			all = append(all, h.lease)
		}
	}
	if len(all) == 0 || !l.Acquired() {
		return ctx
	}
	ending, cancel := context.WithCancelCause(ctx)
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
