// Package customctx has a context that is not made by package context, for tests.
package customctx

import (
	"context"
	"sync/atomic"
)

// Context ends when End is called, with the error given there.
type Context struct {
	context.Context

	done chan struct{}
	err  atomic.Pointer[error]
}

// New returns a context without values or a deadline.
func New() *Context {
	return &Context{Context: context.Background(), done: make(chan struct{})} //nolint:forbidigo // for tests
}

// Done returns the channel that End closes.
func (c *Context) Done() <-chan struct{} { return c.done }

// Err returns the error of End, nil before.
func (c *Context) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// End ends the context with err. It must be called once at most.
func (c *Context) End(err error) {
	c.err.Store(&err)
	close(c.done)
}
