package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/hold"
)

// For returns l bound to r: a [core.Limiter] for a channel, a reader or a pool. It is also a
// [core.Reporter], a [core.Refunder] and a [core.Settler]. For a Limiter of this package it is a
// [core.QuietTrier] too, so that a channel or a reader asks it without an allocation.
//
// If l is a [Keyed], For calls its Key once, before it returns. The returned limiter creates the
// key's partition when it is first used, even if only for its statistics; if there is no room
// for the partition it reports the statistics of Overflow, or zero. For a Limiter of your own
// it reports zero unless that has a method Statistics(R) (core.Statistics, bool), as Keyed has.
// If l is nil, every request to the returned limiter fails.
func For[R any](l Limiter[R], r R) core.Limiter { return bind(l, r) }

func bind[R any](l Limiter[R], r R) bound {
	if b, ok := l.(binder[R]); ok {
		if own := b.bind(l, r); own != nil {
			return own
		}
	}
	if backdoor.IsNil(l) {
		return refuse(errForNil)
	}
	return &boundForeign[R]{l, r}
}

// bound is what For returns: a limiter that is bound to a request.
type bound interface {
	core.Limiter
	core.Reporter
	core.Refunder
	core.Settler
}

// binder is a Limiter that has a better implementation of For than boundForeign. l is the Limiter
// that For was called with. If that only embeds the binder, or is a nil pointer, bind returns
// nil.
type binder[R any] interface {
	bind(l Limiter[R], r R) bound
}

var (
	errForNil        = errors.New("partition: For of a nil limiter")
	errSharedNil     = errors.New("partition: Shared of a nil limiter")
	errTranslateNil  = errors.New("partition: Translate of a nil limiter")
	errTranslateFunc = errors.New("partition: Translate with a nil function")
)

// boundForeign is a user's Limiter for one request.
type boundForeign[R any] struct {
	l Limiter[R]
	r R
}

func (b *boundForeign[R]) TryAcquire(permits int) core.Lease { return b.l.TryAcquire(b.r, permits) }

func (b *boundForeign[R]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.l.Acquire(ctx, b.r, permits)
}

func (b *boundForeign[R]) Refund(l core.Lease) { refundTo(b.l, b.r, l) }

func (b *boundForeign[R]) Settle(l core.Lease, permits int) core.Lease {
	return settleTo(b.l, b.r, l, permits)
}

func (b *boundForeign[R]) Available() int { return b.Statistics().Available }

func (b *boundForeign[R]) Statistics() core.Statistics {
	s, _ := statisticsOf(b.l, b.r)
	return s
}

func (b *boundForeign[R]) String() string { return backdoor.Describe(b.l) }

// refundTo refunds a lease of l's, settles it to 0 if l is only a Settler, or else releases it.
func refundTo[R any](l Limiter[R], r R, lease core.Lease) {
	switch k := l.(type) {
	case Refunder[R]:
		k.Refund(r, lease)
	case Settler[R]:
		k.Settle(r, lease, 0)
	default:
		lease.Release()
	}
}

// settleTo settles a lease of l's. If l is not a Settler, settling to 0 refunds the lease, and
// settling to more leaves it as it is.
func settleTo[R any](l Limiter[R], r R, lease core.Lease, permits int) core.Lease {
	if s, ok := l.(Settler[R]); ok {
		return s.Settle(r, lease, permits)
	}
	if permits <= 0 && lease.Acquired() {
		refundTo(l, r, lease)
	}
	return lease
}

// statisticsOf returns l's statistics if it has a method for that.
func statisticsOf[R any](l Limiter[R], r R) (core.Statistics, bool) {
	if s, ok := l.(interface {
		Statistics(r R) (core.Statistics, bool)
	}); ok {
		return s.Statistics(r)
	}
	return core.Statistics{}, false
}

func (k *Keyed[R, K]) bind(l Limiter[R], r R) bound {
	if own, ok := l.(*Keyed[R, K]); !ok || own == nil {
		return nil
	}
	if k.o.Key == nil { // the zero value
		return refuse(core.ErrClosed)
	}
	key := k.o.Key(r)
	if e := k.find(key); e != nil {
		return e // allocates nothing
	}
	e := &entry[R, K]{k: k, key: key}
	e.word.Store(droppedBit) // its requests look for the partition
	return e
}

// TryAcquire and the other exported methods of entry are those of the limiter that For returns.
func (e *entry[R, K]) TryAcquire(permits int) core.Lease {
	return e.check(permits, core.Limiter.TryAcquire)
}

// Reserve makes it a [core.Reserver].
func (e *entry[R, K]) Reserve(permits int) core.Lease { return e.check(permits, reserve) }

func (e *entry[R, K]) check(permits int, try tryFunc) core.Lease {
	if err := e.k.check(background, permits); err != nil {
		return core.Fail(err)
	}
	return e.k.tryAcquire(e.key, e, permits, try)
}

func (e *entry[R, K]) TryQuietly(permits int) (core.Lease, bool) {
	if e.k.check(background, permits) != nil {
		return core.Lease{}, false
	}
	return e.k.tryQuietly(e.key, e, permits)
}

func (e *entry[R, K]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return e.checkAcquire(ctx, permits, hold.Acquire)
}

// AcquireWaiting makes it a [backdoor.Waiter].
func (e *entry[R, K]) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return e.checkAcquire(ctx, permits, hold.AcquireWaiting)
}

func (e *entry[R, K]) checkAcquire(ctx context.Context, permits int, acquire acquireFunc) (core.Lease, error) {
	if err := e.k.check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return e.k.acquire(ctx, e.key, e, permits, acquire)
}

func (e *entry[R, K]) Refund(l core.Lease) {
	if l.Acquired() {
		e.k.settle(e.key, l, 0, refund)
	}
}

func (e *entry[R, K]) Settle(l core.Lease, permits int) core.Lease {
	if !l.Acquired() {
		return l
	}
	return e.k.settle(e.key, l, max(permits, 0), settle)
}

func (e *entry[R, K]) Available() int { return e.current().Available() }

func (e *entry[R, K]) Statistics() core.Statistics { return statistics(e.current()) }

// Asks returns the live limiter, if there is one: see [backdoor.Asker].
func (e *entry[R, K]) Asks() []core.Limiter {
	if live := e.k.find(e.key); live != nil {
		return []core.Limiter{live.limiter}
	}
	return nil
}

// String makes no partition, and does not show the key, which may be a secret.
func (e *entry[R, K]) String() string {
	if live := e.k.find(e.key); live != nil {
		return "one of " + e.k.title() + ": " + backdoor.Describe(live.limiter)
	}
	return "one of " + e.k.title() + ": not live"
}

// current returns the limiter that decides now: the partition's, which is created if it is not live.
// If it cannot be created or the Keyed is closed, it returns a limiter that refuses everything.
func (e *entry[R, K]) current() core.Limiter {
	if err := e.k.check(background, 0); err != nil {
		return refuse(err)
	}
	live, err := e.k.entry(background, e.key, e)
	if err != nil {
		return refuse(err)
	}
	return live.limiter // it may be dropped while it is read
}

// refuser refuses every request, with the answer's error.
type refuser struct{ answer func(permits int) core.Lease }

func refuse(err error) *refuser {
	return &refuser{func(int) core.Lease { return core.Fail(err) }}
}

func (f *refuser) TryAcquire(permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	return f.answer(permits)
}

func (f *refuser) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	l := f.answer(permits)
	return l, l.Err()
}

func (f *refuser) Reserve(permits int) core.Lease        { return f.TryAcquire(permits) }
func (f *refuser) TryQuietly(int) (core.Lease, bool)     { return core.Lease{}, false }
func (f *refuser) Refund(core.Lease)                     {}
func (f *refuser) Settle(l core.Lease, _ int) core.Lease { return l }
func (f *refuser) Available() int                        { return 0 }
func (f *refuser) Statistics() core.Statistics           { return core.Statistics{} }
func (f *refuser) String() string                        { return f.answer(0).Err().Error() }
