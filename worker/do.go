package worker

import (
	"context"
	"errors"
)

var errNilFunc = errors.New("worker: the function is nil")

// Do runs f on the pool, under a lease of one permit, and returns what it returns; the
// error of a panic is a *[PanicError], that of a runtime.Goexit [ErrGoexit]. It is
// submitted as by [Pool.Submit], whose errors come back with the zero T. They and f's are
// the caller's; Wait does not return them.
//
// f's context is ctx, which ends too when Close or Options.CancelOnError cancels, and when
// f has returned. When ctx is done Do returns ctx.Err() at once: if f has not started by then
// it never does, and its room in the queue is free; if it runs, its context is done, and
// what it returns is lost. An f that ends with its context's error since the first error of
// the pool cancelled it yields both.
func Do[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if f == nil {
		return none, errNilFunc
	}
	if p.limiter == nil {
		return none, ErrClosed
	}
	r := p.round.Load()
	c := &call{ctx: r.life.Begin(ctx), done: make(chan struct{}), finish: true}
	var result T
	task := func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	}
	if err := p.submitCall(ctx, entry{task: task, call: c, permits: 1}); err != nil {
		return none, err
	}
	select {
	case <-c.done:
		return result, r.explain(ctx, c.err)
	case <-ctx.Done():
	}
	if p.takeBack(c) {
		c.ctx.Finish(false)
	}
	select {
	case <-c.done:
		return result, r.explain(ctx, c.err)
	default:
		return none, ctx.Err()
	}
}

// submitCall submits a Do's task. Its context is of no use if that fails, or panics.
func (p *Pool) submitCall(ctx context.Context, e entry) error {
	submitted := false
	defer func() {
		if !submitted {
			e.call.ctx.Finish(false)
		}
	}()
	err := p.submit(ctx, e, waits)
	submitted = err == nil
	return err
}
