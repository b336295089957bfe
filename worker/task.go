package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/list"
	"github.com/sluice-go/sluice/internal/wait"
)

// Task is a function that a pool runs. The ctx of a task given to [Pool.Submit] is done when [Pool.Close] cancels the
// tasks or has returned; the context given to Submit is not passed to the task. The ctx of a task given to a [Group]
// is the group's.
type Task func(ctx context.Context) error

// entry is a task given to the pool.
type entry struct {
	task    Task
	owner   *owner
	permits int
}

// owner is what a task was given to, and is notified of its end: a Group, or a Do or Map, which waits for it. A nil
// owner is Submit, so that Pool.Wait returns the task's error.
type owner struct {
	ctx   *wait.Call // the task's; ends with the caller's, and when Close cancels
	group *Group     // or
	call  *call
}

// job is an entry that waits for its lease or has it, until its end. A pool with a long queue has many, and
// goes through them in turn, so what a plain task needs is within one cache line (BenchmarkPool of bench).
type job struct {
	entry

	asking bool             // it leads, and gets its lease from the limiter only, by its worker or caller
	has    bool             // it has rare
	place  hold.Place[*job] // place in Pool.queue

	rare
}

// rare is what most jobs do not need.
type rare struct {
	rank    hold.Rank          // rank of a job that waits for room in the queue, or whose flow counts
	lease   core.Lease         // once granted, unless it has plain permits
	caller  *wait.Waiter[*job] // the call that waits for the start of the task, in a pool without a queue
	inGroup list.Node[*job]    // node in Group.queued
}

// jobLocked returns the job for a task.
func (p *Pool) jobLocked(e *entry) *job {
	var j *job
	switch last := len(p.spare) - 1; {
	case e.owner != nil && e.owner.call != nil:
		j = &e.owner.call.job
	case last >= 0:
		j = p.spare[last]
		p.spare = p.spare[:last]
	default:
		j = new(job)
	}
	j.entry = *e
	return j
}

// extra returns the rare part of the job.
func (j *job) extra() *rare {
	j.has = true
	return &j.rare
}

// keep gives the job its lease. Plain permits are not stored: their number is that of the task.
func (j *job) keep(h hold.Hold) {
	if h.Permits == 0 {
		j.extra().lease = h.Lease
	}
}

// maxSpare bounds the memory that a pool keeps once it has fewer tasks.
const maxSpare = 1024

// recycleLocked keeps a job that has left the pool for a later task.
func (p *Pool) recycleLocked(j *job) {
	kept := (j.owner == nil || j.owner.call == nil) && len(p.spare) < maxSpare // a call has its own
	j.entry, j.asking = entry{}, false
	if j.has {
		j.forget()
	}
	if kept {
		p.spare = append(p.spare, j)
	}
}

// forget empties the rare part. It is not inlined, so that the frame of its caller remains small: see endSlow.
//
//go:noinline
func (j *job) forget() { j.has, j.rare = false, rare{} }

// call is a Do or Map that waits for its task.
type call struct {
	owner

	job  job
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
