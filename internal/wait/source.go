// Package wait has what calls that wait need: contexts that end from two sides ([Source], [Call]),
// deadlines that can be moved ([Deadline]), a queue of waiting calls ([List]), a mutex whose wait ends with a
// context ([Turn]), and a mutex that spins before it parks ([Mutex]).
//
// It names no type of package core, which imports it. Package hold asks a limiter for permits with it.
package wait

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/list"
)

// Source ends all calls that were started with it, permanently. To continue after that, for example when the
// deadline of a connection is moved, use a new Source. The zero Source has not ended, and a nil
// Source never ends. It is safe for concurrent use.
type Source struct {
	ended atomic.Bool // cause is set; never false again
	mu    sync.Mutex  // guards the fields below; no other lock is taken under it
	cause error
	calls list.List[ender]

	pair atomic.Pointer[Pair] // for the next call of Both; nil: it makes one
}

// join makes s end the call of a node. If s has ended already, it returns the cause.
func (s *Source) join(n *list.Node[ender]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil && !n.Linked() {
		s.calls.Push(n)
	}
	return s.cause
}

// leave undoes join. It returns false if s has ended: then it has ended the call of n, or will.
func (s *Source) leave(n *list.Node[ender]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.Remove()
	return s.cause == nil
}

// Call is a context for one call. It ends with the caller's context and with a [Source].
type Call struct {
	context.Context // of package context, so that derived contexts need no goroutine

	parent context.Context
	source *Source
	cancel context.CancelCauseFunc
	node   list.Node[ender] // node in the source's calls
}

// ender is what a source ends: a Call or a Signal.
type ender interface{ end(cause error) }

func (c *Call) end(cause error) { c.cancel(cause) }

// Begin returns the context of a call whose caller's context is parent. [Call.End] must follow. If the
// source has ended, the context is done.
func (s *Source) Begin(parent context.Context) *Call {
	c := s.New(parent)
	if cause := c.Join(); cause != nil {
		c.cancel(cause)
	}
	return c
}

// New is Begin of a call that has not joined its source.
func (s *Source) New(parent context.Context) *Call {
	ctx, cancel := context.WithCancelCause(parent)
	c := &Call{Context: ctx, parent: parent, source: s, cancel: cancel}
	c.node.Value = c
	return c
}

// Join makes the source end the call, which it keeps alive until [Call.Leave] or [Call.End]. If the source has ended
// already, Join returns its cause and leaves the context as it is. A call that has joined may join again.
func (c *Call) Join() error {
	if c.source == nil {
		return nil
	}
	return c.source.join(&c.node)
}

// Leave undoes Join.
func (c *Call) Leave() {
	if c.source != nil {
		c.source.leave(&c.node)
	}
}

// End frees the resources of the context. It is called when the call returns, and may be called again.
func (c *Call) End() {
	c.Leave()
	c.cancel(nil)
}

// Cancel ends the context with this cause, unless it has ended already: Err then returns
// [context.Canceled]. [Call.End] must still follow.
func (c *Call) Cancel(cause error) { c.cancel(cause) }

// Err returns nil until the context is done. Then it returns the caller's error unchanged if the caller's
// context has ended, and [context.Canceled] if only the source has; [context.Cause] then returns the
// source's cause.
//
// The caller's context is asked because it may be a type that embeds one of package context and has an Err
// of its own. A context derived from it has the error of the embedded one.
func (c *Call) Err() error {
	err := c.Context.Err()
	if err == nil {
		return nil
	}
	if own := c.parent.Err(); own != nil {
		return own
	}
	return err
}

// Ended is like [Source.Ended], but for the caller's context.
func (c *Call) Ended() error { return c.source.Ended(c.parent) }

// Explain is like [Source.Explain], but for the caller's context.
func (c *Call) Explain(err error) error { return c.source.Explain(c.parent, err) }

// Ended returns why a call with the caller's context ctx has to end: the error of ctx, else the source's
// cause. It returns nil if the call may continue.
func (s *Source) Ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Cause()
}

// Explain returns the error to return for err, with which a wait has ended: the error of ctx or the
// source's cause if err is that of a context and one of the two has ended, and err otherwise. A rejection
// that wraps [context.DeadlineExceeded] is returned as it is: the limiter rejected the request before the
// deadline.
func (s *Source) Explain(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && err != context.DeadlineExceeded { //nolint:errorlint // not a rejection
		return err
	}
	if ended := s.Ended(ctx); ended != nil {
		return ended
	}
	return err
}

// End ends all calls of the source, including later ones. Only the first call of End has an effect; it
// returns true. Do not call it with a mutex held, because contexts may be user code.
func (s *Source) End(cause error) bool {
	calls, ok := s.end(cause)
	cancel(calls, cause)
	return ok
}

// end is like End, but without the end of the contexts of calls, which the caller cancels without a mutex.
func (s *Source) end(cause error) (calls []ender, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Load() {
		return nil, false
	}
	s.cause = cause
	s.ended.Store(true)
	for n := s.calls.First(); n != nil; n = n.Next() {
		calls = append(calls, n.Value)
	}
	return calls, true
}

// cancel ends the calls. The runtime runs the goroutine that was woken last first, so that is the one that has
// waited longest. All calls end, even if the stop function of a caller's own context panics.
func cancel(calls []ender, cause error) {
	defer func() {
		if len(calls) > 0 {
			cancel(calls, cause)
		}
	}()
	for len(calls) > 0 {
		last := calls[len(calls)-1]
		calls = calls[:len(calls)-1]
		last.end(cause)
	}
}

// Cause returns the error that End was called with; nil before.
func (s *Source) Cause() error {
	if s == nil || !s.ended.Load() {
		return nil
	}
	return s.cause
}

// Pair is a [Source] that ends with either of two others: see [Both].
type Pair struct {
	Source

	of    [2]*Source
	nodes [2]list.Node[ender] // the pair among the calls of each
}

// Both returns a source for one call that ends with a and with b, and its Pair, whose Leave must follow when the call
// returns. If b is nil, that is a itself, and no Pair. Pairs are used again, so that a call that waits in many limiters,
// each in another one, allocates no more than one that waits in the last of them.
func Both(a, b *Source) (*Source, *Pair) {
	if b == nil {
		return a, nil
	}
	p := a.pair.Swap(nil)
	if p == nil {
		p = new(Pair)
	}
	p.of = [2]*Source{a, b}
	for i, s := range p.of {
		p.nodes[i].Value = p
		if cause := s.join(&p.nodes[i]); cause != nil {
			p.end(cause)
		}
	}
	return &p.Source, p
}

func (p *Pair) end(cause error) { p.End(cause) }

// Leave ends the use of the source. A Pair of which one source has ended, or may be about to end it, is not used again.
func (p *Pair) Leave() {
	if p == nil {
		return
	}
	again := true
	for i, s := range p.of {
		again = s.leave(&p.nodes[i]) && again
	}
	own := p.of[0]
	p.of = [2]*Source{} // which a Pair that waits for its next call would keep alive
	if again {
		own.pair.Store(p)
	}
}
