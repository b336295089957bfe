package worker

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Options are the terms of a [Pool].
type Options struct {
	// Limiter grants the lease that each task runs under, and gets it back when the task
	// ends. Required: [core.Unlimited] is the one for tasks that need no limit. The pool
	// never closes it.
	Limiter core.Limiter

	// Workers is how many goroutines there are at most; 0: as many as the limiter admits
	// tasks, and one more while it makes a queued task wait. At least 0.
	Workers int

	// Queue is how many tasks may be accepted but not started, beyond what waits in the
	// limiter's queue, which is one of them at most; 0: Submit waits until its task is
	// admitted. At least 0.
	Queue int

	// CancelOnError has the first error or panic of a task cancel the whole round of tasks.
	// The contexts of all that run end, with that error as their cause. Those that are
	// queued fail with it and never start, and so do Do and Map calls. New ones are refused
	// with it, until a Wait has returned it. The error of a Do or Map whose own context has
	// ended cancels nobody, as its caller gave it up.
	CancelOnError bool

	// OnPanic is told of every panic of a task, with the stack, on the worker's goroutine
	// after the lease is released, and before Wait, Do or Map return; no lock is held. nil:
	// Wait returns the panic as a *[PanicError]. Do and Map return the *[PanicError] in any
	// case, and so does Wait if it cancelled the round.
	OnPanic func(any, []byte)
}

func (o Options) validate() error {
	var errs []error
	if argument.IsNil(o.Limiter) {
		errs = append(errs, errors.New("worker: Options.Limiter = nil, want a limiter (core.Unlimited() sets no limit)"))
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("worker: Options.Workers = %d, want at least 0", o.Workers))
	}
	if o.Queue < 0 {
		errs = append(errs, fmt.Errorf("worker: Options.Queue = %d, want at least 0", o.Queue))
	}
	return errors.Join(errs...)
}
