package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// For returns l bound to r: a [core.Limiter] for a channel, a reader or a pool. If l is a [Keyed], a [Chain], or a
// [Translate] of one of them, the returned limiter is also a [core.Reporter], a [core.Reserver] and a
// [core.QuietTrier]. If l comes from [Shared], it is the shared limiter, or a wrapper around it.
//
// If l is a [Keyed], For calls Options.Key once, before it returns. The returned limiter looks for the key's partition
// at each call, and creates the partition if there is none, even if only its statistics are read. If there is no room
// for the partition, the statistics are those of the key's group, or zero. Its method Asks() []core.Limiter returns the live limiter
// that decides now, which is that of the key's group if there was no room for the partition. Asks creates no limiter, and
// returns none if neither is live.
//
// If l is a custom Limiter, the statistics are zero, unless l has a method Statistics(R) (core.Statistics, bool), as
// Keyed does. If l is nil, every request to the returned limiter fails.
func For[R any](l Limiter[R], r R) core.Limiter {
	if b, ok := l.(binder[R]); ok {
		if own := b.bind(l, r); own != nil {
			return own
		}
	}
	if backdoor.IsNil(l) {
		return refuse(errors.New("partition: For of a nil limiter"))
	}
	return &boundForeign[R]{l, r}
}

// binder is a Limiter that has a better implementation of For than boundForeign. l is the Limiter
// that For was called with. If that only embeds the binder, or is a nil pointer, bind returns
// nil.
type binder[R any] interface {
	bind(l Limiter[R], r R) core.Limiter
}

// boundForeign is a user's Limiter for one request.
type boundForeign[R any] struct {
	l Limiter[R]
	r R
}

func (b *boundForeign[R]) TryAcquire(permits int) core.Lease { return b.l.TryAcquire(b.r, permits) }

func (b *boundForeign[R]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.l.Acquire(ctx, b.r, permits)
}

func (b *boundForeign[R]) Available() int { return b.Statistics().Available }

func (b *boundForeign[R]) Statistics() core.Statistics {
	s, _ := statisticsOf(b.l, b.r)
	return s
}

func (b *boundForeign[R]) String() string { return backdoor.Describe(b.l) }

// statisticsOf returns l's statistics if it has a method for that.
func statisticsOf[R any](l Limiter[R], r R) (core.Statistics, bool) {
	if s, ok := l.(interface {
		Statistics(r R) (core.Statistics, bool)
	}); ok {
		return s.Statistics(r)
	}
	return core.Statistics{}, false
}

func (k *Keyed[R, K]) bind(l Limiter[R], r R) core.Limiter {
	if own, ok := l.(*Keyed[R, K]); !ok || own == nil {
		return nil
	}
	if k.o.Key == nil { // the zero value
		return refuse(core.ErrClosed)
	}
	key := k.o.Key(r)
	if e := k.partitions.find(key); e != nil {
		return &e.of
	}
	return &keyLimiter[R, K]{k, key}
}

// keyLimiter is the limiter of a key, whichever its partition has at the time.
type keyLimiter[R any, K comparable] struct {
	k   *Keyed[R, K]
	key K
}

func (b *keyLimiter[R, K]) TryAcquire(permits int) core.Lease {
	return b.try(permits, way{try: core.Limiter.TryAcquire})
}

func (b *keyLimiter[R, K]) Reserve(permits int) core.Lease { return b.try(permits, way{try: reserve}) }

func (b *keyLimiter[R, K]) try(permits int, w way) core.Lease {
	if err := b.k.check(background, permits); err != nil {
		return core.Fail(err)
	}
	l, _ := b.k.decide(background, b.key, permits, w)
	return l
}

func (b *keyLimiter[R, K]) TryQuietly(permits int) (core.Lease, bool) {
	if b.k.check(background, permits) != nil {
		return core.Lease{}, false
	}
	return b.k.tryQuietly(b.key, permits)
}

func (b *keyLimiter[R, K]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.acquire(ctx, permits, way{})
}

// AcquireWaiting makes it a [backdoor.Waiter].
func (b *keyLimiter[R, K]) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return b.acquire(ctx, permits, way{waits: true})
}

func (b *keyLimiter[R, K]) acquire(ctx context.Context, permits int, w way) (core.Lease, error) {
	if err := b.k.check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return b.k.decide(ctx, b.key, permits, w)
}

func (b *keyLimiter[R, K]) Available() int { return b.current().Available() }

func (b *keyLimiter[R, K]) Statistics() core.Statistics { return statistics(b.current()) }

// Asks is documented at [For]. It makes it a [backdoor.Asker].
func (b *keyLimiter[R, K]) Asks() []core.Limiter {
	e := b.k.partitions.find(b.key)
	if e == nil && b.k.o.Group != nil {
		e = b.k.groups.find(b.k.o.Group(b.key))
	}
	if e == nil {
		return nil
	}
	return []core.Limiter{e.limiter}
}

// String makes no partition, and does not show the key, which may be a secret.
func (b *keyLimiter[R, K]) String() string {
	if live, ok := b.k.Get(b.key); ok {
		return "one of " + b.k.title() + ": " + backdoor.Describe(live)
	}
	return "one of " + b.k.title() + ": not live"
}

// current returns the limiter that decides now: the partition's, which is created if it is not live.
// If it cannot be created, there is no room, or the Keyed is closed, it returns a limiter that refuses everything.
func (b *keyLimiter[R, K]) current() core.Limiter {
	if err := b.k.check(background, 0); err != nil {
		return refuse(err)
	}
	live, _, err := b.k.entry(background, b.key, way{try: quietly})
	if err != nil {
		return refuse(err)
	}
	return live.limiter // it may be dropped while it is read
}

// refuser refuses every request with an error.
type refuser struct{ err error }

func refuse(err error) *refuser { return &refuser{err} }

func (f *refuser) TryAcquire(permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	return core.Fail(f.err)
}

func (f *refuser) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return core.Fail(f.err), f.err
}

func (f *refuser) Reserve(permits int) core.Lease    { return f.TryAcquire(permits) }
func (f *refuser) TryQuietly(int) (core.Lease, bool) { return core.Lease{}, false }
func (f *refuser) Available() int                    { return 0 }
func (f *refuser) Statistics() core.Statistics       { return core.Statistics{} }
func (f *refuser) String() string                    { return f.err.Error() }
