// Package linked has contexts that end from two sides: with the caller's own context, and
// with a [Source], by which Close and deadlines end calls that wait.
package linked

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Source ends the calls that were begun with it, all at once and once for all. What goes on
// after that, as a connection does whose deadline is moved, takes a new Source. The zero
// Source has not ended.
type Source struct {
	ended atomic.Bool // cause is set, for good
	mu    sync.Mutex  // guards all below, and the links of the calls; a leaf
	cause error
	first *Call
}

// Call is a context for one call. Its Err is the caller's, unchanged, if that came first,
// and [context.Canceled] if the source ended it; [context.Cause] tells the source's cause.
type Call struct {
	context.Context // of package context: derived contexts need no goroutine

	parent     context.Context
	source     *Source
	cancel     context.CancelCauseFunc
	next, prev *Call // in the source's list
	listed     bool
}

// Begin returns the context of a call whose caller's context is parent. [Call.End] must
// follow. A source that has ended returns a context that is done.
func (s *Source) Begin(parent context.Context) *Call {
	ctx, cancel := context.WithCancelCause(parent)
	c := &Call{Context: ctx, parent: parent, source: s, cancel: cancel}
	s.mu.Lock()
	cause := s.cause
	if cause == nil {
		c.listed = true
		if c.next = s.first; c.next != nil {
			c.next.prev = c
		}
		s.first = c
	}
	s.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
	return c
}

// End frees what the context took: the call has returned.
func (c *Call) End() {
	s := c.source
	s.mu.Lock()
	if c.listed {
		c.listed = false
		if c.prev == nil {
			s.first = c.next
		} else {
			c.prev.next = c.next
		}
		if c.next != nil {
			c.next.prev = c.prev
		}
		c.next, c.prev = nil, nil
	}
	s.mu.Unlock()
	c.cancel(nil)
}

// Ended returns why the call has to end: the caller's error, else the source's cause; nil
// if it goes on.
func (c *Call) Ended() error {
	if err := c.parent.Err(); err != nil {
		return err
	}
	return c.source.Cause()
}

// Explain returns what the caller is told of a limiter's error: its own error or the source's
// cause, if err is a cancellation and one of them is the reason; else err.
func (c *Call) Explain(err error) error {
	if ended := c.Ended(); ended != nil && errors.Is(err, context.Canceled) {
		return ended
	}
	return err
}

// End ends all calls of the source, those to come too. The first call of End decides, and
// reports true.
func (s *Source) End(cause error) bool {
	s.mu.Lock()
	if s.ended.Load() {
		s.mu.Unlock()
		return false
	}
	s.cause = cause
	s.ended.Store(true)
	var calls []*Call
	for c := s.first; c != nil; c = c.next {
		calls = append(calls, c)
	}
	s.mu.Unlock()
	for _, c := range calls { // their AfterFuncs are others' code
		c.cancel(cause)
	}
	return true
}

// Cause returns what End was called with; nil before.
func (s *Source) Cause() error {
	if !s.ended.Load() {
		return nil
	}
	return s.cause
}
