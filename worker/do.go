package worker

import (
	"context"
	"errors"
)

var errNilFunc = errors.New("worker: the function is nil")

// Do runs f on the pool, under a lease of one permit, and returns its result. If f panics, the
// error is a *[PanicError]; if f calls runtime.Goexit, it is [ErrGoexit]. Do submits f as
// [Pool.Submit] does; if that fails, Do returns the error with the zero T. Pool.Wait does not
// return the errors of Do.
//
// f's context is derived from ctx. It also ends when [Pool.Close] cancels the tasks, and when f has returned.
//
// If f is nil, Do returns an error, even if ctx is done. Otherwise Do returns ctx.Err() as soon as ctx is done. If f
// has not started by then, it never runs, and its room in the queue is free. If f is running, its context is done. If
// ctx is done before Do has the result, the result is discarded, even if f has succeeded.
func Do[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) (T, error) {
	var none, result T
	if f == nil {
		return none, errNilFunc
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	own := p.life.Begin(ctx)
	defer own.End() // f has returned, or its context is done
	o := &owner{ctx: own, done: make(chan struct{})}
	task := func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	}
	if err := p.submit(ctx, job{task: task, permits: 1, owner: o}, true); err != nil {
		return none, err
	}
	select {
	case <-o.done:
		return result, o.err
	case <-ctx.Done():
		p.takeBack(o)
		return none, ctx.Err()
	}
}
