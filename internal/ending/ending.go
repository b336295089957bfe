// Package ending tells a call that waits for permits from one that is only on its way to a
// server and back, by what its limiter asks of its context.
//
// A caller waits from when its limiter asks for the context's Done. A limiter that asks a
// server, and wants to know of the context's end meanwhile, asks for [Watch] instead, and for
// Done when the server has said that the caller must wait. [Observe] is for whoever wants to
// know: telemetry, which times the queues.
package ending

import (
	"context"
	"sync/atomic"
)

// watcher is a context that knows of both.
type watcher interface{ WatchDone() <-chan struct{} }

// Watch returns ctx's Done, for a limiter whose caller does not wait for permits yet.
func Watch(ctx context.Context) <-chan struct{} {
	if w, ok := ctx.(watcher); ok {
		return w.WatchDone()
	}
	return ctx.Done()
}

// Context is a context that remembers whether somebody waited on it.
type Context struct {
	context.Context

	waited, watched atomic.Bool
}

// Observe returns ctx, as one that remembers.
func Observe(ctx context.Context) *Context { return &Context{Context: ctx} }

// Done is ctx's: somebody waits.
func (c *Context) Done() <-chan struct{} {
	c.waited.Store(true)
	return c.Context.Done()
}

// WatchDone is Done for somebody who only watches; see [Watch].
func (c *Context) WatchDone() <-chan struct{} {
	c.watched.Store(true)
	return Watch(c.Context)
}

// Waited reports whether somebody has asked for Done.
func (c *Context) Waited() bool { return c.waited.Load() }

// Watched reports whether somebody watches: then a limiter that does not ask for Done does
// not wait.
func (c *Context) Watched() bool { return c.watched.Load() }

// Unobserved returns the context that c remembers for.
func (c *Context) Unobserved() context.Context { return c.Context }

// Quiet returns ctx as a parent for contexts of package context: they ask for its Done as they
// are made, which is no wait.
func Quiet(ctx context.Context) context.Context {
	if o, ok := ctx.(interface{ Unobserved() context.Context }); ok {
		return Quiet(o.Unobserved())
	}
	if _, ok := ctx.(watcher); ok {
		return quiet{ctx}
	}
	return ctx
}

type quiet struct{ context.Context }

func (q quiet) Done() <-chan struct{} { return Watch(q.Context) }
