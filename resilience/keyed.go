package resilience

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/partition"
)

// Keyed returns a strategy that keeps apart what it runs: each function takes one permit of
// the partition of the request that of finds in Do's context, as who is calling. The
// partitions stay the caller's: the strategy's Close does not close them. At most one
// Options, without a Limiter.
func Keyed[R any](l partition.Limiter[R], of func(context.Context) R, o ...Options) (*Strategy, error) {
	options, err := without(o)
	if of == nil {
		err = errors.Join(errors.New("resilience: the function that finds the request is nil"), err)
	}
	if argument.IsNil(l) {
		err = errors.Join(errors.New("resilience: the limiter is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	acquire := func(ctx context.Context) (core.Lease, error) { return l.Acquire(ctx, of(ctx), 1) }
	return newStrategy(&terms{Options: options, acquire: acquire}), nil
}
