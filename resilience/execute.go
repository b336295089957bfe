package resilience

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/backdoor"
)

// Execute runs f by way of e and returns f's results unchanged, the value even with an error.
// If f is not run, the value is T's zero value and the error is e's; see [Strategy.Do]. With a
// *[Strategy] it allocates nothing, apart from the limiter.
//
// If e runs f more than once, the value is the last that f returned before e did.
func Execute[T any](ctx context.Context, e Executor, f func(context.Context) (T, error)) (T, error) {
	if s, ok := e.(*Strategy); ok && s != nil {
		var v T
		err := s.run(ctx, nil, func(ctx context.Context) (err error) {
			v, err = f(ctx)
			return err
		})
		return v, err
	}
	return executeSlow(ctx, e, f)
}

// executeSlow is Execute for an executor that is not a strategy. It may return while f runs.
func executeSlow[T any](ctx context.Context, e Executor, f func(context.Context) (T, error)) (T, error) {
	var none T
	if backdoor.IsNil(e) {
		return none, errors.New("resilience: the executor is nil")
	}
	var last atomic.Pointer[T]
	err := e.Do(ctx, func(ctx context.Context) error {
		v, err := f(ctx)
		last.Store(&v)
		return err
	})
	if v := last.Load(); v != nil {
		return *v, err
	}
	return none, err
}
