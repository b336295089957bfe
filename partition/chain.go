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

// Chain returns a limiter that asks each of ls for the same permits, all or nothing, as
// [core.Chain] does: for example a limit per client and a limit for all clients together.
//
// The limiters are asked in the order given; Acquire waits for one before it asks the next. If
// a limiter rejects or fails, or ctx is done, the permits already taken are returned, last
// first, and that limiter's own lease and error are returned. A combined lease releases its
// parts last first. Its metadata is the union of theirs; if several have a value of one name,
// the first limiter's is taken. The chain is a [Refunder] and a [Settler]; a part whose limiter
// is not a Settler keeps what it holds. The chain closes none of its limiters. Chain returns an
// error if ls is empty, if a limiter is nil, or if one occurs twice, even inside another chain or [Shared]: it could wait for
// itself.
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
	return newChain(slices.Clone(ls)), nil
}

// asks returns the limiters that l asks for each request, through the chains and shared limiters of this package.
// Two translations of one limiter may be for two keys.
func asks[R any](l Limiter[R]) []any {
	if c, ok := l.(*composed[R]); ok && c.asks != nil {
		return c.asks()
	}
	return []any{l}
}

func newChain[R any](ls []Limiter[R]) Limiter[R] {
	title := func() string {
		parts := make([]string, len(ls))
		for i, l := range ls {
			parts[i] = backdoor.Describe(l)
		}
		return "chain of " + strings.Join(parts, ", ")
	}
	template := ways.ChainLike(make([]core.Limiter, len(ls)), nil) // all others are like it
	fresh := func(pool *sync.Pool) *boundChain {
		links := make([]core.Limiter, len(ls))
		return &boundChain{ways.ChainLike(links, template).(chained), links, pool, title}
	}
	pool := new(sync.Pool)
	pool.New = func() any { return fresh(pool) }
	return &composed[R]{
		of: func(r R, once bool) bound {
			var b *boundChain
			if once {
				b = pool.Get().(*boundChain)
			} else {
				b = fresh(nil)
			}
			for i, l := range ls {
				b.links[i] = bind(l, r)
			}
			return b
		},
		asks: func() (all []any) {
			for _, l := range ls {
				all = append(all, asks(l)...)
			}
			return all
		},
		title: title,
	}
}

// boundChain is a chain for one request, so that each Key is asked once.
type boundChain struct {
	chained
	links []core.Limiter // those of chained
	pool  *sync.Pool     // of chains for single calls; nil for the chain of For, which the caller keeps
	title func() string
}

// chained has the methods of a *core.ChainedLimiter that a boundChain has too.
type chained interface {
	bound
	core.Reserver
	core.QuietTrier
}

func (b *boundChain) AcquireWaiting(ctx context.Context, permits int) (core.Lease, error) {
	return ways.AcquireWaiting(ctx, b.chained, permits)
}

// Asks makes it a [backdoor.Asker].
func (b *boundChain) Asks() []core.Limiter { return b.links }

func (b *boundChain) String() string { return b.title() }
