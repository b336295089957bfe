// Package testkit has what the tests of several packages need: the look for leaked goroutines, whether the
// race detector is on, how often to repeat, bubbles, and a context that package context did not make.
package testkit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, and fails if they leave a goroutine behind. Call it from TestMain.
func Main(m *testing.M, options ...goleak.Option) { goleak.VerifyTestMain(m, options...) }

// Race reports whether the race detector is on. Allocations cannot be counted then: sync.Pool drops some of
// what it is given, at random.
const Race = race

// Rounds returns n, or an eighth of it under the race detector, where each round takes ten times as long. It is
// for a test that repeats what races, or that has one goroutine only.
func Rounds(n int) int {
	if testing.Short() || Race {
		return max(n/8, 1)
	}
	return n
}

// Bubble runs a subtest in a synctest bubble of its own.
//
// Tests start no timer of 0 in a bubble: it runs on the goroutine that starts it, and under the race detector two
// such goroutines crash Go 1.26, because the timers of a bubble share one race context.
func Bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		synctest.Test(t, test)
	})
}

// Context is a context that is not of a type of package context. It ends when End is called, with the error
// given there.
type Context struct {
	context.Context

	done chan struct{}
	err  atomic.Pointer[error]
}

// NewContext returns a context without values or a deadline.
func NewContext() *Context {
	return &Context{Context: context.Background(), done: make(chan struct{})} //nolint:forbidigo // for tests
}

// Done returns the channel that End closes.
func (c *Context) Done() <-chan struct{} { return c.done }

// Err returns nil until End is called, then the error given there.
func (c *Context) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// End ends the context with err. It must be called at most once.
func (c *Context) End(err error) {
	c.err.Store(&err)
	close(c.done)
}

// OwnError is a context with an error of its own: it ends as the embedded context does, and its Err then
// returns Own instead of the embedded context's error. Contexts derived from it see the embedded one.
type OwnError struct {
	context.Context

	Own error
}

// Err returns nil until the embedded context is done, then Own.
func (c OwnError) Err() error {
	if c.Context.Err() != nil {
		return c.Own
	}
	return nil
}
