package resilience

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/partition"
)

// Keyed returns a strategy with a limiter per key: each function takes one permit for the
// request, such as the caller's name, that of finds in Do's context. of is called once more to
// settle. The strategy's Close does not close l. At most one Options may be given, without a
// Limiter.
func Keyed[R any](l partition.Limiter[R], of func(context.Context) R, o ...Options) (*Strategy, error) {
	options, err := atMostOne(o)
	if of == nil {
		err = errors.Join(errors.New("resilience: the function that finds the request is nil"), err)
	}
	if argument.IsNil(l) {
		err = errors.Join(errors.New("resilience: the limiter is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return newStrategy(keyedBy(options, l, of))
}

// keyedBy returns a config with a limiter that is given a request.
func keyedBy[R any](o Options, l partition.Limiter[R], of func(context.Context) R) *config {
	return &config{
		Options: o,
		acquire: func(ctx context.Context) (core.Lease, error) { return l.Acquire(ctx, of(ctx), 1) },
		settle: func(ctx context.Context, lease core.Lease, permits int) core.Lease {
			bound, _ := partition.For(l, of(ctx)).(core.Settler) // as For promises
			return bound.Settle(lease, permits)
		},
	}
}
