package redislimit

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/core"
)

// FencingToken is a number that grows with every concurrency lease of a Key, for a resource
// that refuses a smaller one than it has seen. It is at least the server's microseconds since
// 1970, so that the server may forget it; a failover to a server whose clock is behind may
// repeat tokens.
var FencingToken = core.NewMetadataKey[uint64]("FENCING_TOKEN")

// lease is a concurrency lease of this process. The engine's mutex guards what changes.
type lease struct {
	e       *engine
	id      int64 // in the server's set, with the limiter's holder
	token   int64
	permits int64
	until   time.Time // then it is lost, if it is not renewed
	loss    *time.Timer
	end     end
	freed   bool  // its release was sent
	version int64 // how often it was settled
	ends    map[*context.CancelCauseFunc]struct{}
	place   int // in keeper.leases
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

// loseIfLate is what the timer does.
func (l *lease) loseIfLate() {
	l.e.mu.Lock()
	defer l.e.unlock()
	if !time.Now().Before(l.until) {
		l.e.keeper.endLocked(l, lost)
	}
}

// handle is what a core.Lease knows of its lease. It is spent once the lease has another version: each Settle makes one.
type handle struct {
	lease   *lease
	version int64
}

func (l *lease) handle() *handle { return &handle{l, l.version} }

// String returns a human-readable line.
func (h *handle) String() string {
	return fmt.Sprintf("lease %d of %q", h.lease.token, h.lease.e.shared.Key)
}

func (h *handle) liveLocked() bool { return h.version == h.lease.version && h.lease.end == live }

// grant returns the core.Lease that has the handle; m are its metadata.
func (h *handle) grant(permits int, m ...core.Metadata) core.Lease {
	// The name is its own, so that the lease of a chain has those of all its parts.
	name := fmt.Sprintf("REDIS_LEASE_%d_%x", h.lease.token, h.lease.e.keeper.holder)
	return core.Grant(permits, func() { h.release() }, append(m, core.NewMetadataKey[*handle](name).With(h))...)
}

// release releases the lease, also one that was lost: the server may count it still. It returns when the store has answered,
// or Timeout is over, and reports whether the lease was not released before.
func (h *handle) release() bool {
	k := &h.lease.e.keeper
	return h.lease.e.perform(func() *operation {
		if h.version != h.lease.version || h.lease.freed {
			return nil
		}
		h.lease.freed = true
		k.endLocked(h.lease, released)
		return k.release(h.lease)
	}) != nil
}

// settle has the lease hold another number of permits, and returns the handle that replaces h; nil: h was spent.
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

// watch has cancel called when the lease ends, and returns whether, and how, it has ended.
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
