package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

// Task is a function that a pool runs. The ctx of a task given to [Pool.Submit] is done when
// [Pool.Close] cancels or has returned; the context given to Submit is not passed to the task.
// The ctx of a task given to a [Group] is the group's.
type Task func(ctx context.Context) error

// entry is a task given to the pool.
type entry struct {
	task    Task
	permits int
	flow    *core.Flow // under FairShare; nil: none
	ctx     *wait.Call // the task's context; ends with the caller's, and when Close cancels

	// Who is notified of the end; all nil: it was given to Submit.
	group  *Group
	call   *call
	ticket *ticket // of the call, or of the group's task while that is queued
}

// admitted is a task that has its lease.
type admitted struct {
	entry

	hold hold.Hold
}

// call is a Do or Map that waits for its task.
type call struct {
	ticket ticket
	done   chan struct{} // closed when the task has ended and is counted, and its lease is back
	err    error         // set before done is closed
}

// submitted reports whether the task was given to Submit, so that Pool.Wait returns its error.
func (e *entry) submitted() bool { return e.call == nil && e.group == nil }

// finish notifies the Do, Map or Group that the task has ended with err.
func (e *entry) finish(err error) {
	switch {
	case e.group != nil:
		e.group.finish(1, err)
	case e.call != nil:
		e.call.finish(err)
	}
}

func (c *call) finish(err error) {
	c.err = err
	close(c.done)
}

// ended returns why a task with this context must not start; nil if it may.
func ended(ctx *wait.Call) error {
	if err := ctx.Ended(); err != nil {
		return err
	}
	return ctx.Err()
}
