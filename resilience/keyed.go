package resilience

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/partition"
)

// Keyed returns a strategy with a limiter per key: each function takes one permit for the
// request, such as the caller's name, that of finds in Do's context. of is called once more to
// settle. The strategy's Close does not close l. o must not have a Limiter; its Default is ignored.
func Keyed[R any](l partition.Limiter[R], of func(context.Context) R, o Options) (*Strategy, error) {
	var errs []error
	if backdoor.IsNil(l) {
		errs = append(errs, errors.New("resilience: the limiter is nil"))
	}
	if of == nil {
		errs = append(errs, errors.New("resilience: the function that finds the request is nil"))
	}
	if o.Limiter != nil {
		errs = append(errs, errors.New("resilience: Options.Limiter is set, want nil: Keyed has a limiter of its own"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return newStrategy(&config{Options: o, admission: keyed[R]{l, of}}), nil
}

// keyed is a limiter for each key.
type keyed[R any] struct {
	l  partition.Limiter[R]
	of func(context.Context) R
}

func (k keyed[R]) acquire(ctx context.Context) (core.Lease, error) {
	r := k.of(ctx)
	lease, err := k.l.Acquire(ctx, r, 1)
	if err != nil || !lease.Acquired() {
		return backdoor.Checked(partition.For(k.l, r), lease, err)
	}
	return lease, nil
}

func (k keyed[R]) settle(ctx context.Context, lease core.Lease, permits int) core.Lease {
	return backdoor.Settle(partition.For(k.l, k.of(ctx)), lease, permits)
}
