package partition

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
)

// For returns the limiter that l is for r: a [core.Limiter] that plugs into a channel, a
// reader, a pool. It is a [core.Reporter] and a [core.Refunder] too.
//
// Of a [Keyed] it asks the key at once, and never again. It makes the partition when it is
// asked for anything, figures included; without room it tells the figures of Overflow, else
// zero. Of a limiter of your own it tells zero, unless that has a method
// Statistics(R) (core.Statistics, bool), as Keyed has. For of nil refuses everything.
func For[R any](l Limiter[R], r R) core.Limiter {
	if b, ok := l.(binder[R]); ok {
		if bound := b.bind(l, r); bound != nil {
			return bound
		}
	}
	if isNil(l) {
		return &refuser[R]{errForNil}
	}
	return &bound[R]{l, r}
}

// boundLimiter is what For returns.
type boundLimiter interface {
	core.Limiter
	core.Reporter
	core.Refunder
}

// binder is a Limiter that knows better than bound what it is for one request. l is the
// Limiter itself, or somebody's that embeds it: of those, and of a nil pointer, bind knows
// nothing, and returns nil.
type binder[R any] interface {
	bind(l Limiter[R], r R) boundLimiter
}

var (
	errForNil       = errors.New("partition: For of a nil limiter")
	errSharedNil    = errors.New("partition: Shared of a nil limiter")
	errTranslateNil = errors.New("partition: Translate of a nil limiter")
	errTranslateFor = errors.New("partition: Translate with a nil function")
)

// bound is somebody's Limiter for one request.
type bound[R any] struct {
	l Limiter[R]
	r R
}

func (b *bound[R]) TryAcquire(permits int) core.Lease { return b.l.TryAcquire(b.r, permits) }

func (b *bound[R]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	return b.l.Acquire(ctx, b.r, permits)
}

func (b *bound[R]) Refund(l core.Lease) { refundTo(b.l, b.r, l) }

func (b *bound[R]) Available() int { return b.Statistics().Available }

func (b *bound[R]) Statistics() core.Statistics {
	s, _ := statisticsOf(b.l, b.r)
	return s
}

// refundTo refunds a lease of l's, or releases it if l knows no refund.
func refundTo[R any](l Limiter[R], r R, lease core.Lease) {
	if f, ok := l.(Refunder[R]); ok {
		f.Refund(r, lease)
		return
	}
	lease.Release()
}

// statisticsOf asks l for its statistics, if it has a method for that.
func statisticsOf[R any](l Limiter[R], r R) (core.Statistics, bool) {
	if s, ok := l.(interface {
		Statistics(r R) (core.Statistics, bool)
	}); ok {
		return s.Statistics(r)
	}
	return core.Statistics{}, false
}

// partition is a Keyed for one key.
type partition[R any, K comparable] struct {
	k    *Keyed[R, K]
	hash uint64
	key  K
}

func (k *Keyed[R, K]) bind(l Limiter[R], r R) boundLimiter {
	if own, ok := l.(*Keyed[R, K]); !ok || own == nil {
		return nil
	}
	if k.o.Key == nil { // the zero value
		return &refuser[R]{core.ErrClosed}
	}
	key := k.o.Key(r)
	hash := k.hash(key)
	e := k.table.find(hash, key)
	if e == nil {
		return &partition[R, K]{k, hash, key}
	}
	p := e.bound.Load()
	if p == nil {
		p = &partition[R, K]{k, hash, key}
		e.bound.Store(p) // of several at once any does
	}
	return p
}

func (p *partition[R, K]) TryAcquire(permits int) core.Lease {
	if err := p.k.check(none, permits); err != nil {
		return core.Refuse(err)
	}
	return p.k.tryAcquire(p.hash, p.key, permits)
}

func (p *partition[R, K]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := p.k.check(ctx, permits); err != nil {
		return refuse(err)
	}
	return p.k.acquire(ctx, p.hash, p.key, permits)
}

func (p *partition[R, K]) Refund(l core.Lease) {
	if l.Acquired() {
		p.k.refund(p.hash, p.key, l)
	}
}

func (p *partition[R, K]) Available() int {
	l, leave := p.limiter()
	if l == nil {
		return 0
	}
	defer leave()
	return l.Available()
}

func (p *partition[R, K]) Statistics() core.Statistics {
	l, leave := p.limiter()
	if l == nil {
		return core.Statistics{}
	}
	defer leave()
	return statistics(l)
}

// limiter returns the partition's limiter, made if it must be, or Overflow if there is no
// room for it; nil if it cannot be made, or all is closed. leave must follow.
func (p *partition[R, K]) limiter() (l core.Limiter, leave func()) {
	if p.k.check(none, 0) != nil {
		return nil, nil
	}
	e, err := p.k.enterSlow(none, nil, p.hash, p.key)
	switch {
	case err == nil:
		return e.limiter, func() { e.leave() }
	case errors.Is(err, errNoRoom):
		return p.k.o.Overflow, func() {}
	}
	return nil, nil
}

// refuser refuses everything with one error: what was made of nil.
type refuser[R any] struct{ err error }

func (f *refuser[R]) TryAcquire(permits int) core.Lease {
	if err := check(none, permits); err != nil {
		return core.Refuse(err)
	}
	return core.Refuse(f.err)
}

func (f *refuser[R]) Acquire(ctx context.Context, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return refuse(err)
	}
	return refuse(f.err)
}

func (f *refuser[R]) Refund(core.Lease)           {}
func (f *refuser[R]) Available() int              { return 0 }
func (f *refuser[R]) Statistics() core.Statistics { return core.Statistics{} }
