package worker

import (
	"context"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/linked"
)

// Task is a function that a pool runs. Its context ends when [Pool.Close] cancels what
// runs, or when the pool is closed and drained. The context of a task given to a [Group]
// also ends with that group's; the context given to Submit does not reach the task. A
// task's context is for the task alone: it may end once the pool is at rest.
type Task func(ctx context.Context) error

// entry is a task that was given to the pool.
type entry struct {
	task    Task
	call    *call // the Do, Map or Group that waits for its end; nil: it came by Submit
	permits int
}

// admitted is a task that has its lease.
type admitted struct {
	entry

	lease core.Lease
	plain bool // it holds plain permits in place of the lease
}

// call is the caller's side of a task of a Do, a Map or a Group.
type call struct {
	ctx   *linked.Call  // the task's: ends with the caller's, and when Close cancels
	group *Group        // notified of the end; nil: a Do or Map, which waits for done
	done  chan struct{} // closed when the task has ended, is counted and its lease is back
	err   error         // set before done is closed

	inQueue membership // Pool.mu guards it
}

// membership says whether a call's task is in the pool's queue.
type membership uint8

const (
	outside membership = iota
	queued
	dropped // its caller has given up; the queue still has the entry, which does not count
)

// givenUp returns why the task must not start any more; nil if it may.
func (c *call) givenUp() error {
	if err := c.ctx.Ended(); err != nil {
		return err
	}
	return c.ctx.Err()
}

// settle notifies the caller that the task has ended.
func (c *call) settle(err error) {
	if c.group != nil {
		c.group.settle(1, err)
		return
	}
	c.err = err
	close(c.done)
}

// taskContext is the context of the tasks that came by Submit. A channel made in a synctest
// bubble cannot be used in another, so the pool replaces a context with a channel as soon as
// it is at rest.
type taskContext struct {
	context.Context // ends by cancel alone

	cancel context.CancelCauseFunc
	waited atomic.Bool // Done was called, so there is a channel
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
