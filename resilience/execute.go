package resilience

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/argument"
)

// Execute runs f by way of e, and returns what f returns, unchanged, the value beside an
// error too. If f is not run, the value is T's zero value, and the error is e's; see
// [Strategy.Do]. With a *[Strategy] it allocates nothing beyond what the limiter does.
//
// If e runs f more than once, the result is the last that f returned before e did.
func Execute[T any](ctx context.Context, e Executor, f func(context.Context) (T, error)) (T, error) {
	if s, ok := e.(*Strategy); ok && s != nil {
		t, l, err := s.admit(ctx, nil)
		if err != nil {
			var none T
			return none, err
		}
		defer t.release(l)
		return f(ctx)
	}
	return executeSlow(ctx, e, f)
}

// executeSlow is Execute on what is no strategy.
func executeSlow[T any](ctx context.Context, e Executor, f func(context.Context) (T, error)) (T, error) {
	var none T
	if argument.IsNil(e) {
		return none, errors.New("resilience: the executor is nil")
	}
	var last atomic.Pointer[T] // who stops waiting for f returns while f still runs
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
