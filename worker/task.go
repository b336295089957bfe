package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
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
	order   core.QueueOrder // of the limiter, when the task was given
	flow    core.Flow       // of the caller's context, if order is FairShare
	ctx     *wait.Call      // the task's context; ends with the caller's, and when Close cancels

	// Who is notified of the end; both nil: it was given to Submit.
	group *Group
	call  *call
}

// job is an entry that waits for its lease or has it, until its end.
type job struct {
	entry

	hold   hold.Hold          // its lease, once it has that
	leads  bool               // the worker that takes it asks the limiter for its lease
	caller *wait.Waiter[turn] // the call that waits for the start of the task, in a pool without a queue

	section *section         // of the queue that it is in; nil: in none
	item    *fair.Item[*job] // in the queue by flow
	links   [listKinds]link  // in lists
}

// turn is what a blocked call waits with: for room in the queue or, in a pool without a queue, for the
// start of its task.
type turn struct {
	job   *job
	leads bool // the call itself asks the limiter for the lease; set when its wait ends
}

// jobLocked returns the job for a task.
func (p *Pool) jobLocked(e *entry) *job {
	var j *job
	switch last := len(p.spare) - 1; {
	case e.call != nil:
		j = &e.call.job
	case last >= 0:
		j = p.spare[last]
		p.spare = p.spare[:last]
	default:
		j = new(job)
	}
	j.entry = *e
	return j
}

// maxSpare bounds the memory that a pool keeps once it has fewer tasks.
const maxSpare = 1024

// recycleLocked keeps a job that has left the pool for a later task.
func (p *Pool) recycleLocked(j *job) {
	kept := j.call == nil && len(p.spare) < maxSpare // a call has its own
	*j = job{}
	if kept {
		p.spare = append(p.spare, j)
	}
}

// call is a Do or Map that waits for its task.
type call struct {
	job  job
	done chan struct{} // closed when the task has ended and is counted, and its lease is back
	err  error         // set before done is closed
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

// reasonToEnd returns why a task with this context must not start; nil if it may.
func reasonToEnd(ctx *wait.Call) error {
	if err := ctx.Ended(); err != nil {
		return err
	}
	return ctx.Err()
}
