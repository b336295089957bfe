package worker

import (
	"context"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/linked"
)

// Task is a function that a pool runs. Its ctx is done when [Pool.Close] cancels. The ctx of a
// task given to a [Group] is the group's, and is also done when that is. The context given to
// Submit is not passed to the task. A task must not hand its ctx to work that outlives the
// task: ctx may end as soon as the pool is idle.
type Task func(ctx context.Context) error

// entry is a task given to the pool.
type entry struct {
	task    Task
	call    *call // the Do, Map or Group that waits for its end; nil: given to Submit
	permits int
}

// admitted is a task that has its lease.
type admitted struct {
	entry

	lease core.Lease
	plain bool // it holds plain permits instead of the lease
}

// call is the caller's side of a task of a Do, a Map or a Group.
type call struct {
	ctx   *linked.Call  // the task's context; ends with the caller's, and when Close cancels
	group *Group        // settled at the end; nil: a Do or Map, which waits for done
	done  chan struct{} // closed when the task has ended and is counted, and its lease is back
	err   error         // set before done is closed

	inQueue membership // Pool.mu guards it
}

// membership says whether a call's task is in the pool's queue.
type membership uint8

const (
	outside membership = iota
	queued
	dropped // takeBack was called; the entry is still in the queue but does not count
)

// givenUp returns the error of a task whose context has ended before it could start, or nil.
func (c *call) givenUp() error {
	if err := c.ctx.Ended(); err != nil {
		return err
	}
	return c.ctx.Err()
}

// settle notifies the Do, Map or Group that the task has ended with err.
func (c *call) settle(err error) {
	if c.group != nil {
		c.group.settle(1, err)
		return
	}
	c.err = err
	close(c.done)
}

// taskContext is the context of the tasks given to Submit. Its Done channel is made on the
// first call of Done. A channel made in one synctest bubble cannot be used in another, so an
// idle pool replaces a taskContext whose Done was called.
type taskContext struct {
	context.Context // ends only by cancel

	cancel context.CancelCauseFunc
	waited atomic.Bool // Done was called, so the channel exists
}

func newTaskContext(background context.Context) *taskContext {
	ctx, cancel := context.WithCancelCause(background)
	return &taskContext{Context: ctx, cancel: cancel}
}

// Done implements [context.Context].
func (c *taskContext) Done() <-chan struct{} {
	if !c.waited.Load() {
		c.waited.Store(true)
	}
	return c.Context.Done()
}
