package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// For returns l bound to r: a [core.Limiter] for a channel, a reader or a pool. It is also a
// [core.Reporter], a [core.Refunder] and a [core.Settler].
//
// If l is a [Keyed], For calls its Key once, before it returns. The returned limiter makes the
// key's partition when it is first used, even if only for its statistics; if there is no room
// for the partition it reports the statistics of Overflow, or zero. For a Limiter of your own
// it reports zero unless that has a method Statistics(R) (core.Statistics, bool), as Keyed has.
// If l is nil, every request to the returned limiter fails.
func For[R any](l Limiter[R], r R) core.Limiter { return bind(l, r) }

func bind[R any](l Limiter[R], r R) boundLimiter {
	if b, ok := l.(binder[R]); ok {
		if bound := b.bind(l, r); bound != nil {
			return bound
		}
	}
	if argument.IsNil(l) {
		return &refuser{errForNil}
	}
	return &bound[R]{l, r}
}

// boundLimiter is what For returns.
type boundLimiter interface {
	core.Limiter
	core.Reporter
	core.Refunder
	core.Settler
}

// binder is a Limiter that has a better implementation of For than bound. l is the Limiter
// that For was called with. If that only embeds the binder, or is a nil pointer, bind returns
// nil.
type binder[R any] interface {
	bind(l Limiter[R], r R) boundLimiter
}

var (
	errForNil        = errors.New("partition: For of a nil limiter")
	errSharedNil     = errors.New("partition: Shared of a nil limiter")
	errTranslateNil  = errors.New("partition: Translate of a nil limiter")
	errTranslateFunc = errors.New("partition: Translate with a nil function")
)

// bound is a user's Limiter for one request.
type bound[R any] struct {
	l Limiter[R]
	r R
}

func (b *bound[R]) TryAcquire(permits int) core.Lease { return b.l.TryAcquire(b.r, permits) }

func (b *bound[R]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.l.Acquire(ctx, b.r, permits)
}

func (b *bound[R]) Refund(l core.Lease) { refundTo(b.l, b.r, l) }

func (b *bound[R]) Settle(l core.Lease, permits int) core.Lease {
	return settleTo(b.l, b.r, l, permits)
}

func (b *bound[R]) Available() int { return b.Statistics().Available }

func (b *bound[R]) Statistics() core.Statistics {
	s, _ := statisticsOf(b.l, b.r)
	return s
}

func (b *bound[R]) String() string { return describe(b.l) }

// refundTo refunds a lease of l's, or releases it if l is not a Refunder.
func refundTo[R any](l Limiter[R], r R, lease core.Lease) {
	if f, ok := l.(Refunder[R]); ok {
		f.Refund(r, lease)
		return
	}
	lease.Release()
}

// settleTo is settle for a Limiter.
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

// partition is a Keyed for one key, whether that has a live partition or not.
type partition[R any, K comparable] struct {
	k   *Keyed[R, K]
	key K
}

func (k *Keyed[R, K]) bind(l Limiter[R], r R) boundLimiter {
	if own, ok := l.(*Keyed[R, K]); !ok || own == nil {
		return nil
	}
	if k.o.Key == nil { // the zero value
		return &refuser{core.ErrClosed}
	}
	key := k.o.Key(r)
	if e := k.find(key); e != nil {
		return &e.partition // allocates nothing
	}
	return &partition[R, K]{k, key}
}

func (p *partition[R, K]) TryAcquire(permits int) core.Lease {
	if err := p.k.check(none, permits); err != nil {
		return core.Refuse(err)
	}
	return p.k.tryAcquire(p.key, permits)
}

func (p *partition[R, K]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := p.k.check(ctx, permits); err != nil {
		return refuse(err)
	}
	return p.k.acquire(ctx, p.key, permits)
}

func (p *partition[R, K]) Refund(l core.Lease) {
	if l.Acquired() {
		p.k.settle(p.key, l, 0)
	}
}

func (p *partition[R, K]) Settle(l core.Lease, permits int) core.Lease {
	if !l.Acquired() {
		return l
	}
	return p.k.settle(p.key, l, max(permits, 0))
}

func (p *partition[R, K]) Available() int {
	if l := p.limiter(); l != nil {
		return l.Available()
	}
	return 0
}

func (p *partition[R, K]) Statistics() core.Statistics {
	if l := p.limiter(); l != nil {
		return statistics(l)
	}
	return core.Statistics{}
}

// String makes no partition, and does not show the key, which may be a secret.
func (p *partition[R, K]) String() string {
	if e := p.k.find(p.key); e != nil {
		return "one of " + p.k.title() + ": " + describe(e.limiter)
	}
	return "one of " + p.k.title() + ": not live"
}

// limiter returns the partition's limiter, made if need be, or Overflow if there is no room
// for it; nil if it cannot be made, or the Keyed is closed.
func (p *partition[R, K]) limiter() core.Limiter {
	if p.k.check(none, 0) != nil {
		return nil
	}
	e, err := p.k.enter(none, p.key)
	switch {
	case err == nil:
		e.unpin() // to be dropped while it is read does no harm
		return e.limiter
	case errors.Is(err, errNoRoom):
		return p.k.o.Overflow
	}
	return nil
}

// refuser refuses everything with one error.
type refuser struct{ err error }

func (f *refuser) TryAcquire(permits int) core.Lease {
	if err := check(none, permits); err != nil {
		return core.Refuse(err)
	}
	return core.Refuse(f.err)
}

func (f *refuser) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return refuse(err)
	}
	return refuse(f.err)
}

func (f *refuser) Refund(core.Lease)                     {}
func (f *refuser) Settle(l core.Lease, _ int) core.Lease { return l }
func (f *refuser) Available() int                        { return 0 }
func (f *refuser) Statistics() core.Statistics           { return core.Statistics{} }
func (f *refuser) String() string                        { return f.err.Error() }
