package worker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/wait"
)

// Group is a set of tasks that belong together, as with errgroup.WithContext, run under the
// pool's limit. Create one with [Pool.Group]. The tasks' context ends with the context given to
// Pool.Group, at the group's first error or panic, when [Pool.Close] cancels, and when Wait
// returns.
//
// Call [Group.Go] for each task, and then [Group.Wait], which also frees the group's context.
// A group cannot be reused: after Wait it starts no task. Groups of one pool share the pool's
// limit and queue, and nothing else. A task that uses a group of its own pool keeps its lease
// and its goroutine while it waits for the group, so the limiter and Options.Workers need room
// for both. Groups in tasks are best given a pool and a limiter of their own.
//
// A Group is safe for concurrent use; its tasks may call Go.
type Group struct {
	pool *Pool
	ctx  *wait.Call // the tasks'

	tasks  atomic.Int64 // tasks given to Go that have not ended
	queued list         // those in the pool's queue; Pool.mu guards it

	mu      sync.Mutex
	stopped chan struct{} // closed when tasks becomes 0; nil: no Wait call is waiting
	err     error         // the first error
}

// Group returns an empty group whose tasks' context is derived from ctx.
func (p *Pool) Group(ctx context.Context) *Group {
	return &Group{pool: p, ctx: p.life.Begin(ctx), queued: list{kind: inGroup}}
}

// Go runs a task under a lease of one permit. It waits until the task has its lease or is in
// the pool's queue, even if the limiter has no queue: if the limiter rejects the task, Go asks
// again. Calls of Go on a pool without a queue, and those of [Map], take turns at the limiter,
// first come first served. After the group's context has ended, Go starts nothing, and a task
// that is still waiting for its lease never runs. Unlike with errgroup, a task given to Go may
// therefore never be called.
//
// Go does not ask again if a rate limiter rejects the task because its permits would come after
// the deadline of the group's context: that rejection, which matches [context.DeadlineExceeded],
// is the group's error at once.
//
// An error that keeps a task from running becomes the group's error, such as [ErrClosed],
// [core.ErrClosed] of a closed limiter, ctx.Err(), or the error for a nil task.
func (g *Group) Go(t Task) { g.GoN(1, t) }

// GoN is Go for a task whose lease has the given number of permits. Invalid numbers are errors
// of the group, the same as the errors of [Pool.SubmitN].
func (g *Group) GoN(permits int, t Task) {
	g.tasks.Add(1)
	var err error
	accepted := false
	defer func() { // deferred, because the limiter may panic
		if !accepted {
			g.finish(1, err)
		}
	}()
	err = g.pool.submit(g.ctx.Context, entry{task: t, permits: permits, ctx: g.ctx, group: g}, persists)
	if accepted = err == nil; !accepted {
		err = g.ctx.Explain(err)
	}
}

// Wait waits until all tasks of the group have ended, and returns the group's first error: an
// error that a task returned, a *[PanicError] for a panic, [ErrGoexit], or an error of Go.
// Later errors are discarded; most are consequences of the first. No task of the group runs
// after Wait has returned.
//
// If the group's context ends, Wait removes the group's tasks from the queue at once, and
// still waits for the running ones. If the context given to Pool.Group has ended and kept a task
// from running, the error is that context's own, unchanged.
func (g *Group) Wait() error {
	g.mu.Lock()
	if g.tasks.Load() > 0 && g.stopped == nil {
		g.stopped = make(chan struct{})
	}
	stopped := g.stopped
	g.mu.Unlock()
	if stopped != nil {
		select {
		case <-stopped:
		case <-g.ctx.Done():
			err := reasonToEnd(g.ctx)
			g.finish(g.pool.takeBackAll(g), err)
			<-stopped
		}
	}
	g.ctx.End()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// fail records an error. The first error ends the group's context before fail returns.
func (g *Group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		g.ctx.Cancel(err)
	}
}

// finish records that n tasks have ended, each with err.
func (g *Group) finish(n int, err error) {
	if n > 0 && err != nil {
		g.fail(err)
	}
	if g.tasks.Add(-int64(n)) > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A Wait that found a task looks for stopped here, or found none. A task that was begun
	// since, by Go, is for the next.
	if g.stopped != nil && g.tasks.Load() == 0 {
		close(g.stopped)
		g.stopped = nil
	}
}
