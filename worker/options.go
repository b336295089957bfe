package worker

import (
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/invalid"
)

// Options configure a [Pool].
type Options struct {
	// Limiter grants the lease that each task runs under. The pool releases the lease when the
	// task ends. Limiter is required; use [core.Unlimited] for no limit. Pools and other callers may
	// share a limiter. The pool never closes it.
	Limiter core.Limiter

	// Workers is the maximum number of goroutines. It must not be negative. 0 means no maximum: the
	// pool has one goroutine per running task, and one more while a queued task waits for its
	// lease. A rate limiter does not bound how many tasks run at a time, so set Workers with
	// one; otherwise slow tasks pile up.
	Workers int

	// Queue is the maximum number of accepted tasks that have no lease yet. Only the first of
	// them waits in the limiter. 0 means no queue: the calls that submit wait until their tasks
	// start. It must not be negative.
	Queue int

	// OnPanic is called with the value and the stack of each panic of a task. It runs on the
	// worker's goroutine with no lock held, after the lease is released and before a Wait, Do
	// or Map that waits for the task returns. It must be safe for concurrent calls. If OnPanic
	// is nil, Pool.Wait returns the panic as a *[PanicError]. Do, Map and Group.Wait return the
	// *[PanicError] whether or not OnPanic is set.
	OnPanic func(value any, stack []byte)

	// WithoutPanicRecovery lets a panic of a task end the process, as it does in a goroutine of your own. The traceback
	// then shows the task, and tools that watch for crashes see it, whereas an error may be logged without its stack. The
	// same holds for a panic of the limiter on a goroutine of the pool. OnPanic cannot be set too.
	WithoutPanicRecovery bool
}

func (o Options) validate() error {
	wrong := invalid.Fields{Prefix: "worker: Options."}
	if backdoor.IsNil(o.Limiter) {
		wrong.Add("Limiter", "nil", "a limiter (core.Unlimited() sets no limit)")
	}
	if o.Workers < 0 {
		wrong.Add("Workers", o.Workers, "at least 0")
	}
	if o.Queue < 0 {
		wrong.Add("Queue", o.Queue, "at least 0")
	}
	if o.WithoutPanicRecovery && o.OnPanic != nil {
		wrong.Addf("OnPanic has no effect with WithoutPanicRecovery")
	}
	return wrong.Err()
}
