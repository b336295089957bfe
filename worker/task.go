package worker

import (
	"context"

	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/internal/list"
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
	rank    hold.Rank  // among the tasks that wait
	ctx     *wait.Call // the task's context; ends with the caller's, and when Close cancels

	owner
}

// owner is what a task was given to, and is notified of its end. The zero owner is Submit, so that Pool.Wait
// returns the task's error.
type owner struct {
	group *Group
	call  *call
}

// job is an entry that waits for its lease or has it, until its end.
type job struct {
	entry

	hold   hold.Hold          // its lease, once it has that
	asking bool               // it leads, and gets its lease from the limiter only, by its worker or caller
	caller *wait.Waiter[*job] // the call that waits for the start of the task, in a pool without a queue

	place   hold.Place[*job] // in Pool.queue
	inGroup list.Node[*job]  // in Group.queued
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
	j.entry, j.place.Value, j.inGroup.Value = *e, j, j
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

func (o owner) submitted() bool { return o == owner{} }

// finish notifies the Do, Map or Group that the task has ended with err.
func (o owner) finish(err error) {
	switch {
	case o.group != nil:
		o.group.finish(1, err)
	case o.call != nil:
		o.call.finish(err)
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
