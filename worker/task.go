package worker

import (
	"context"

	"github.com/sluice-go/sluice/internal/wait"
)

// Task is a function that a pool runs. The ctx of a task given to [Pool.Submit] is done when [Pool.Close] cancels the
// tasks or has returned; the context given to Submit is not passed to the task. The ctx of a task given to a [Group]
// is the group's.
type Task func(ctx context.Context) error

// owner is what a task was given to, and is notified of its end: a Group, or a Do or Map, which waits for it. A nil
// owner is Submit, so that Pool.Wait returns the task's error.
type owner struct {
	ctx    *wait.Call // the task's; ends with the caller's, and when Close cancels
	queued int        // its tasks in the queue; Pool.mu guards it
	group  *Group     // nil for a Do or Map

	// Of a Do or Map.
	done chan struct{} // closed when the task has ended and is counted, and its lease is back
	err  error         // set before done is closed
}

// ctxOf returns the context of the tasks of an owner.
func (p *Pool) ctxOf(o *owner) *wait.Call {
	if o == nil {
		return p.tasks
	}
	return o.ctx
}

// finish notifies the Do, Map or Group that the task has ended with err.
func (o *owner) finish(err error) {
	switch {
	case o == nil:
	case o.group != nil:
		o.group.finish(1, err)
	default:
		o.err = err
		close(o.done)
	}
}

// reasonToEnd returns why a task with this context must not start; nil if it may.
func reasonToEnd(ctx *wait.Call) error {
	if err := ctx.Ended(); err != nil {
		return err
	}
	return ctx.Err()
}
