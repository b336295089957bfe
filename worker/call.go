package worker

import "context"

// call is a caller of Do or Map that waits for its task to end.
type call struct {
	ctx     context.Context
	done    chan struct{} // closed when the task has ended, is counted and its lease is back
	err     error         // set before done is closed
	cleanup func()        // lets go of ctx; may be nil

	queued  bool // its task is in Pool.waiting; Pool.mu guards it
	dropped bool // its task is there, but is gone; Pool.mu guards it
}

func newCall(ctx context.Context) *call { return &call{ctx: ctx, done: make(chan struct{})} }

// settle tells the caller that the task has ended.
func (c *call) settle(err error) {
	c.err = err
	if c.cleanup != nil {
		c.cleanup()
	}
	close(c.done)
}

// join returns a context that ends with ctx or, the cause being ErrClosed, when the tasks
// are cancelled, and the function that lets go of it.
func (p *Pool) join(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// takeBack takes the task of a call out of the queue, its room being free at once, and
// reports whether it was there. A call that it took back is never settled.
func (p *Pool) takeBack(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.queued {
		return false
	}
	c.queued, c.dropped = false, true
	p.queued--
	p.failLocked(c, c.ctx.Err())
	p.dropped++
	// Each pass over the queue is paid for by as many calls as it drops.
	if p.dropped > p.waiting.n/2 {
		p.waiting.keep(func(e *entry) bool { return !e.gone() })
		p.dropped = 0
	}
	p.grantLocked()
	p.restLocked()
	return true
}
