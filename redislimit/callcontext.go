package redislimit

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of a call: it ends at its deadline, if it has one, and when the
// call has.
type callContext struct {
	deadline time.Time

	mu    sync.Mutex
	timer *time.Timer   // nil: nobody needs to know when the deadline passes
	done  chan struct{} // nil: nobody asked
	err   error
	child *callContext // that it ends; nil: none
}

// within returns a context that ends after that time, and when c does. c ends the latest only.
func (c *callContext) within(d time.Duration) *callContext {
	child := &callContext{deadline: time.Now().Add(d)}
	child.begin(func() {})
	c.mu.Lock()
	c.child = child
	err := c.err
	c.mu.Unlock()
	if err != nil {
		child.finish(err)
	}
	return child
}

// begin starts the clock; late runs if the deadline passes. Without it the clock runs if
// somebody asks for Done.
func (c *callContext) begin(late func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(time.Until(c.deadline), func() {
		c.finish(context.DeadlineExceeded)
		late()
	})
}

// end is for when the call has returned.
func (c *callContext) end() { c.finish(context.Canceled) }

func (c *callContext) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	if c.child != nil {
		c.child.finish(err)
	}
}

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		switch {
		case c.err != nil:
			close(c.done)
		case c.timer == nil && !c.deadline.IsZero():
			c.timer = time.AfterFunc(time.Until(c.deadline), func() { c.finish(context.DeadlineExceeded) })
		}
	}
	return c.done
}

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && c.timer == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		if c.err = context.DeadlineExceeded; c.done != nil {
			close(c.done)
		}
	}
	return c.err
}

func (c *callContext) Value(any) any { return nil }
