package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// Chain returns a limiter that takes the same permits from each of ls, all or nothing, as
// [core.Chain] does: for example a limit per client and a limit for all clients together.
//
// The limiters are called in the order given; Acquire waits for one before it calls the next. If a limiter rejects or
// fails, or ctx is done, the permits already taken are returned, last first, and that limiter's own lease and error
// are returned. A combined lease releases its parts in reverse order. Its metadata is the union of theirs; if several
// have a value of one name, the first limiter's is used. The chain closes none of its limiters. Chain returns an error
// if ls is empty, if a limiter is nil, or if one occurs twice, even inside another chain or [Shared], because a
// request could then wait for itself.
func Chain[R any](ls ...Limiter[R]) (Limiter[R], error) {
	if len(ls) == 0 {
		return nil, errors.New("partition: Chain of 0 limiters, want at least 1")
	}
	var errs []error
	asked := make([][]any, len(ls))
	for i, l := range ls {
		if backdoor.IsNil(l) {
			errs = append(errs, fmt.Errorf("partition: Chain limiter %d is nil", i))
			continue
		}
		asked[i] = asks(l)
		for at, others := range asked[:i] {
			for _, a := range asked[i] {
				if slices.ContainsFunc(others, func(b any) bool { return backdoor.Same(a, b) }) {
					errs = append(errs, fmt.Errorf("partition: Chain limiter %d asks the same limiter as limiter %d, %s", i, at, backdoor.Describe(a)))
				}
			}
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	c := &chain[R]{ls: slices.Clone(ls)}
	c.joiners.New = func() any { return ways.NewJoiner(len(c.ls), nil) }
	return c, nil
}

// asks returns the limiters that l asks for each request, through the chains and shared limiters of this package.
// Two translations of one limiter may be for two keys.
func asks[R any](l Limiter[R]) []any {
	if c, ok := l.(interface{ asks() []any }); ok {
		return c.asks()
	}
	return []any{l}
}

type chain[R any] struct {
	ls      []Limiter[R]
	joiners sync.Pool // pool of backdoor.Joiner, each of which has a mutex, so that requests do not meet at one
}

func (c *chain[R]) TryAcquire(r R, permits int) core.Lease {
	if err := check(background, permits); err != nil {
		return core.Fail(err)
	}
	l, _ := c.all(permits, func(l Limiter[R]) (core.Lease, error) {
		return l.TryAcquire(r, permits), nil
	})
	return l
}

func (c *chain[R]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := check(ctx, permits); err != nil {
		return core.Fail(err), err
	}
	return c.all(permits, func(l Limiter[R]) (core.Lease, error) {
		lease, err := backdoor.Checked(l.Acquire(ctx, r, permits))
		if done := ctx.Err(); err == nil && done != nil { // the limiter may not have noticed
			lease.Refund()
			return core.Fail(done), done
		}
		return lease, err
	})
}

// all returns one lease of all limiters, which ask asks in their order. If one fails or panics, it refunds
// the others.
func (c *chain[R]) all(permits int, ask func(Limiter[R]) (core.Lease, error)) (core.Lease, error) {
	joiner := c.joiners.Get().(backdoor.Joiner[core.Lease])
	defer c.joiners.Put(joiner)
	parts, whole := joiner.Begin(), false
	defer func() {
		if !whole {
			defer parts.Drop()
			refund(parts.Leases())
		}
	}()
	for _, l := range c.ls {
		lease, err := ask(l)
		if !lease.Acquired() {
			return lease, err
		}
		parts.Add(lease)
	}
	whole = true
	return parts.Join(permits), nil
}

// refund refunds the leases, last first, even if a limiter panics.
func refund(leases []core.Lease) {
	if len(leases) == 0 {
		return
	}
	last := len(leases) - 1
	defer refund(leases[:last])
	defer leases[last].Release() // what cannot be refunded
	leases[last].Refund()
}

func (c *chain[R]) asks() (all []any) {
	for _, l := range c.ls {
		all = append(all, asks(l)...)
	}
	return all
}

func (c *chain[R]) String() string {
	parts := make([]string, len(c.ls))
	for i, l := range c.ls {
		parts[i] = backdoor.Describe(l)
	}
	return "chain of " + strings.Join(parts, ", ")
}

func (c *chain[R]) bind(_ Limiter[R], r R) core.Limiter {
	links := make([]core.Limiter, len(c.ls))
	for i, l := range c.ls {
		links[i] = For(l, r)
	}
	return &boundChain{ways.ChainOf(links).(chained), links, c.String}
}

// boundChain is a chain that is bound to a request.
type boundChain struct {
	chained
	links []core.Limiter
	title func() string
}

// chained has the methods of a *core.ChainedLimiter that a boundChain has too.
type chained interface {
	core.Limiter
	core.Reporter
	core.Reserver
	core.QuietTrier
}

func (b *boundChain) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return waiting(ctx, b.chained, permits)
}

// Asks makes it a [backdoor.Asker].
func (b *boundChain) Asks() []core.Limiter { return b.links }

func (b *boundChain) String() string { return b.title() }
