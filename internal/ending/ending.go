// Package ending has the context that a limiter is asked with by a channel, a pipe, a
// connection or a pool: it ends with the caller's, and when a [Source] says so, as Close
// and deadlines do.
//
// While no limiter waits on it, it costs nothing: no context of package context, no
// goroutine, no registration anywhere.
package ending

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Source ends the contexts that were begun with it, all at once and once for all. What
// goes on after that, as a connection does whose deadline is moved, takes a new Source.
// The zero Source has not ended.
type Source struct {
	// Waiting is called, with no lock held, whenever somebody asks for the Done of a context
	// that is in use, or watches it: it is about to wait. A limiter may ask on a goroutine of
	// its own, and a moment after Finish. nil: nobody wants to know. It is set before the
	// first Begin.
	Waiting func()

	cause atomic.Pointer[error] // nil: it goes on

	mu    sync.Mutex // guards first, and the links of the contexts; a leaf
	first *Context   // of those that somebody has waited on
}

// End ends all contexts of the source, those to come too. [context.Cause] of each is cause,
// and its Err is [context.Canceled]. The first call decides, and reports true.
func (s *Source) End(cause error) bool {
	if !s.cause.CompareAndSwap(nil, &cause) {
		return false
	}
	// A context that enters the list from now on looks at the cause after that, so none is
	// forgotten.
	s.mu.Lock()
	c := s.first
	s.first = nil
	var ending []*inner
	for ; c != nil; c = c.unlinkLocked() {
		ending = append(ending, c.inner.Load())
	}
	s.mu.Unlock()
	for _, in := range ending { // their AfterFuncs are others' code
		in.cancel(cause)
	}
	return true
}

// Cause returns what End was called with; nil before.
func (s *Source) Cause() error {
	if cause := s.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Context is a caller's context that ends with its source too. It is a [context.Context]
// that keeps all promises of package context, and shows the caller's deadline and values.
type Context struct {
	parent  context.Context
	source  *Source
	done    atomic.Bool // the call that it was begun for is over
	waited  atomic.Bool // somebody has asked for Done
	watched atomic.Bool // somebody has asked for WatchDone

	// What ends: made when somebody asks for Done, or when the end is there. Until then
	// the parent and the source are asked.
	inner atomic.Pointer[inner]

	next, prev *Context // in the source's list; guarded by its mutex
	linked     bool
}

// inner is a context of package context's own: so Err never changes once it is set, Cause
// finds it, and what is derived from it needs no goroutine.
type inner struct {
	context.Context

	cancel context.CancelCauseFunc
	quiet  bool // made before anybody waited: the parent may not have been told
}

// caller is a caller's context that has an Err once it is done, as package context takes for
// granted: it panics if it finds none.
type caller struct {
	context.Context

	child *Context
}

// Done asks as the child was asked.
func (c caller) Done() <-chan struct{} {
	if c.child.waited.Load() {
		return c.Context.Done()
	}
	if own, ok := c.Context.(*Context); ok && !c.child.watched.Load() {
		return own.resolve().Done() // nobody has asked: the child has ended
	}
	return Watch(c.Context)
}

func (c caller) Err() error {
	err := c.Context.Err()
	if err == nil {
		select {
		case <-c.Done():
			if err = c.Context.Err(); err == nil { // it may have ended just now
				err = context.Canceled
			}
		default:
		}
	}
	return err
}

// errFinished is the cause of a context whose call is over, in a limiter that kept it.
var errFinished = errors.New("the call that this context was made for has returned")

// contexts holds those that are no longer referenced.
var contexts = sync.Pool{New: func() any { return new(Context) }}

// Begin returns a context for one call whose caller's context is parent. Finish must follow.
func (s *Source) Begin(parent context.Context) *Context {
	c := contexts.Get().(*Context)
	c.parent, c.source = parent, s
	return c
}

// Finish ends the context, and frees what a wait took: the call has returned. forgotten
// says that nobody can have kept it, so that it may be used again. That is sure of core's
// own four limiters; another's may keep a context for ever, and look at it whenever it likes.
func (c *Context) Finish(forgotten bool) {
	if c.inner.Load() == nil && forgotten {
		c.parent, c.source = nil, nil
		contexts.Put(c)
		return
	}
	c.done.Store(true)
	// Whoever makes an inner context from now on sees done after that.
	if in := c.inner.Load(); in != nil {
		c.unlink()
		in.cancel(errFinished)
	}
}

// Waited reports whether somebody has asked for Done: not those who only watch.
func (c *Context) Waited() bool { return c.waited.Load() }

// Watched reports whether somebody watches: then whoever does not ask for Done does not wait.
func (c *Context) Watched() bool { return c.watched.Load() }

// Unused reports whether nobody has waited on the context or watched it yet. Then it may
// serve its owner's next call too, if that has the same parent and nobody can have kept it.
func (c *Context) Unused() bool { return c.inner.Load() == nil }

// Explain returns the source's cause if err says that the source ended the wait, and the
// caller's own error if that did, whatever the limiter found; else err.
func (c *Context) Explain(err error) error {
	if cause := c.EndedBy(err); cause != nil {
		return cause
	}
	if err == context.Canceled { //nolint:errorlint // one that says more is the limiter's
		if own := c.parent.Err(); own != nil {
			return own
		}
	}
	return err
}

// EndedBy returns the source's cause if err says that the source ended the wait; else nil.
func (c *Context) EndedBy(err error) error {
	if cause := c.source.Cause(); cause != nil && c.parent.Err() == nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return nil
}

// Done returns a channel that is closed when the context ends.
func (c *Context) Done() <-chan struct{} {
	c.tell()
	first := c.waited.CompareAndSwap(false, true)
	in := c.resolve()
	if first && in.quiet {
		c.parent.Done() // it may want to know
	}
	return in.Done()
}

// WatchDone is Done for those who only watch; see [Watch].
func (c *Context) WatchDone() <-chan struct{} {
	c.tell()
	c.watched.Store(true)
	return c.resolve().Done()
}

func (c *Context) tell() {
	if waiting := c.source.Waiting; waiting != nil && !c.done.Load() {
		waiting()
	}
}

// Watch returns ctx's Done for a limiter that wants to know of the end while it asks
// somebody, as a server, who has yet to say whether the caller must wait. Whoever made ctx
// to find out who waits takes an asking for Done as a wait, and this as none: so ask for
// Done too, once the wait begins.
func Watch(ctx context.Context) <-chan struct{} {
	if w, ok := ctx.(interface{ WatchDone() <-chan struct{} }); ok {
		return w.WatchDone()
	}
	return ctx.Done()
}

// Err returns nil until the context ends: then the caller's error, or [context.Canceled].
func (c *Context) Err() error {
	// What ended does, inline: a limiter asks at every call.
	if c.inner.Load() == nil && !c.done.Load() && c.source.cause.Load() == nil && c.parent.Err() == nil {
		return nil
	}
	return c.resolve().Err()
}

// Deadline returns the caller's: a limiter refuses at once what would outlast it. A
// deadline that is a source's is not shown, as it may be moved while a call waits.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Value returns the caller's value for key.
func (c *Context) Value(key any) any {
	if in := c.inner.Load(); in != nil || c.ended() {
		return c.resolve().Value(key) // there package context finds what it needs for Cause
	}
	return c.parent.Value(key)
}

// String says what it is to who prints it, instead of its fields, which others may change.
func (c *Context) String() string { return "a limiter's context" }

// ended reports whether the context is to end, or has.
func (c *Context) ended() bool {
	if in := c.inner.Load(); in != nil && in.Err() != nil {
		return true
	}
	return c.done.Load() || c.source.cause.Load() != nil || c.parent.Err() != nil
}

// resolve returns the inner context, made now if it must be, and ended if it is to end.
func (c *Context) resolve() *inner {
	in := c.inner.Load()
	if in == nil {
		quiet := !c.waited.Load()
		ctx, cancel := context.WithCancelCause(caller{c.parent, c})
		in = &inner{ctx, cancel, quiet}
		if !c.inner.CompareAndSwap(nil, in) {
			cancel(nil)
			in = c.inner.Load()
		} else if in.Err() == nil {
			c.link()
		}
	}
	// What ends it looks for an inner context after it has set one of these.
	if cause := c.source.cause.Load(); cause != nil {
		in.cancel(*cause) // does nothing if the context has ended
	} else if c.done.Load() {
		in.cancel(errFinished)
	} else if err := c.parent.Err(); err != nil {
		// A parent of somebody's own may say so and not close its channel; one of package context closes it
		// a moment later. The inner context is canceled then, whatever the error: see Explain.
		in.cancel(err)
	}
	if in.Err() != nil {
		c.unlink()
	}
	return in
}

// link enters c into its source's list, for End.
func (c *Context) link() {
	s := c.source
	s.mu.Lock()
	defer s.mu.Unlock()
	c.linked = true
	c.next = s.first
	if c.next != nil {
		c.next.prev = c
	}
	s.first = c
}

// unlink takes c out of its source's list, if it is there.
func (c *Context) unlink() {
	s := c.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.linked {
		return
	}
	if c.prev == nil {
		s.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.unlinkLocked()
}

// unlinkLocked clears c's links, and returns what was the next.
func (c *Context) unlinkLocked() *Context {
	next := c.next
	c.next, c.prev, c.linked = nil, nil, false
	return next
}
