package worker

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/sluice-go/sluice/core"
)

// Options are the terms of a [Pool].
type Options struct {
	// Limiter grants the lease that each task runs under, and gets it back when the task
	// ends. Required. The pool never closes it.
	Limiter core.Limiter

	// Workers is how many goroutines there are at most; 0: as many as the limiter admits
	// tasks, and one more while it makes a queued task wait. At least 0.
	Workers int

	// Queue is how many tasks may be accepted but not started, beyond what waits in the
	// limiter's queue, which is one of them at most; 0: Submit waits until its task is
	// admitted. At least 0.
	Queue int

	// OnPanic is told of every panic of a task, with the stack, on the worker's goroutine
	// after the lease is released, and before Wait, Do or Map return; no lock is held. nil: Wait returns it as a *[PanicError].
	// Do and Map return the *[PanicError] in any case.
	OnPanic func(any, []byte)
}

func (o Options) validate() error {
	var errs []error
	if isNil(o.Limiter) {
		errs = append(errs, errors.New("worker: Options.Limiter = nil, want a limiter"))
	}
	if o.Workers < 0 {
		errs = append(errs, fmt.Errorf("worker: Options.Workers = %d, want at least 0", o.Workers))
	}
	if o.Queue < 0 {
		errs = append(errs, fmt.Errorf("worker: Options.Queue = %d, want at least 0", o.Queue))
	}
	return errors.Join(errs...)
}

// isNil reports whether l is nil, or holds a nil pointer.
func isNil(l core.Limiter) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
