package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
)

// entry is a task that was accepted.
type entry struct {
	task    Task
	call    *call // who waits for its end; nil: nobody but Wait
	permits int
}

// gone reports whether the task's caller took it back.
func (e *entry) gone() bool { return e.call != nil && e.call.dropped }

// weight is what the task adds to Pool.held. It is bounded so that no sum overflows; a
// limiter that grants more than that is in no danger of being full.
func (e *entry) weight() int64 { return min(int64(e.permits), 1<<31) }

// admitted is a task that has its lease.
type admitted struct {
	entry
	lease core.Lease
}

// job is what a worker is at. It is the worker's own.
type job struct {
	admitted
	searching bool // this is the worker that Pool.searching tells of
	runs      bool // the task has begun and has not returned
	panicked  bool
	err       error
}

// context returns the context that the task runs and is admitted by.
func (j *job) context(p *Pool) context.Context {
	if j.call != nil {
		return j.call.ctx
	}
	return p.ctx
}
