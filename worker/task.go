package worker

import (
	"context"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ending"
)

// Task is what a pool runs. Its context ends when Close cancels what runs, when the pool
// is closed and drained and, under Options.CancelOnError, with the first error; the
// context given to Submit does not reach it.
type Task func(ctx context.Context) error

// entry is a task that was given to the pool.
type entry struct {
	task    Task
	call    *call // the Do or Map that waits for its end; nil: only Wait does
	permits int
}

// gone reports whether the task's caller took it back.
func (e *entry) gone() bool { return e.call != nil && e.call.dropped }

// admitted is a task that has its lease: this one or, if it is not acquired, plain permits
// of the pool's limiter.
type admitted struct {
	entry

	lease core.Lease
}

// call is a Do or Map that waits for its task to end.
type call struct {
	ctx     *ending.Context // the task's: it ends with the caller's, and with the round
	done    chan struct{}   // closed when the task has ended, is counted and its lease is back
	err     error           // set before done is closed
	finish  bool            // ctx is of no use once the task has ended
	queued  bool            // its task is in Pool.waiting; Pool.mu guards it
	dropped bool            // its task is there, but was taken back; Pool.mu guards it
}

// settle tells the caller that the task has ended.
func (c *call) settle(err error) {
	c.err = err
	if c.finish {
		c.ctx.Finish(false)
	}
	close(c.done)
}

// takeBack takes the task of a call out of the queue, its room being free at once, and
// reports whether it was there. A call that it took back is never settled.
func (p *Pool) takeBack(c *call) bool {
	err := c.ctx.Err()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.queued {
		return false
	}
	c.queued, c.dropped = false, true
	p.dropped++
	p.failLocked(c, err)
	// Each pass over the queue is paid for by as many calls as it drops.
	if p.dropped > p.waiting.n/2 {
		p.waiting.keep(func(e *entry) bool { return !e.gone() })
		p.dropped = 0
	}
	p.grantLocked()
	p.restLocked()
	return true
}
