package worker

import (
	"errors"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Options configure a [Pool].
type Options struct {
	// Limiter grants the lease that each task runs under, and gets it back when the task
	// ends. It is required; use [core.Unlimited] for tasks that need no limit. The pool
	// never closes it.
	Limiter core.Limiter

	// Workers is the maximum number of goroutines. 0 means one for each task that the
	// limiter admits, and one more while a queued task waits in the limiter. It must not be
	// negative.
	Workers int

	// Queue is the maximum number of tasks that are accepted but have no lease yet. One of
	// them at most waits in the limiter. 0 means no queue: Submit waits until its task is
	// admitted. It must not be negative.
	Queue int

	// OnPanic is called with the value and the stack of each panic of a task. It runs on the
	// worker's goroutine, after the lease is released and before the Wait, Do or Map that
	// waits for the task returns; no lock is held. Calls may be concurrent. If OnPanic is nil,
	// Pool.Wait returns the panic as a *[PanicError]. Do, Map and Group.Wait return the
	// *[PanicError] in any case.
	OnPanic func(value any, stack []byte)
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
