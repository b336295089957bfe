package worker

import (
	"context"
	"sync"

	"github.com/sluice-go/sluice/internal/linked"
)

// Group is a set of tasks that belong together, as with errgroup.WithContext, run under the
// pool's limit. Create one with [Pool.Group]. The tasks' context ends with the context given to
// Pool.Group, at the group's first error or panic, when [Pool.Close] cancels, and when Wait
// returns.
//
// Call [Group.Go] for each task, and then [Group.Wait], which also frees the group's context.
// A group cannot be reused: after Wait it starts no task. Groups of one pool share the pool's
// limit and queue, and nothing else. A task that uses a group of its own pool keeps its lease
// while it waits for the group, so the limiter needs permits for both.
//
// A Group is safe for concurrent use; its tasks may call Go.
type Group struct {
	pool   *Pool
	ctx    *linked.Call // the tasks'
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	tasks   int           // tasks given to Go that have not ended
	stopped chan struct{} // closed when tasks becomes 0; nil: no Wait call is waiting
	err     error         // the first error
}

// Group returns an empty group whose tasks' context is derived from ctx.
func (p *Pool) Group(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{pool: p, ctx: p.life.Begin(ctx), cancel: cancel}
}

// Go runs a task under a lease of one permit. It waits until the task has its lease or is in
// the pool's queue, even if the limiter has no queue: if the limiter rejects the task, Go asks
// again. After the group's context has ended, Go starts nothing, and a task that is still
// waiting for its lease never runs. Unlike with errgroup, a task given to Go may therefore
// never be called.
//
// An error that keeps a task from running becomes the group's error, such as [ErrClosed],
// [core.ErrClosed] of a closed limiter, ctx.Err(), or the error for a nil task.
func (g *Group) Go(t Task) { g.GoN(1, t) }

// GoN is Go for a task whose lease has the given number of permits. Invalid numbers are errors
// of the group, the same as the errors of [Pool.SubmitN].
func (g *Group) GoN(permits int, t Task) {
	g.mu.Lock()
	g.tasks++
	g.mu.Unlock()
	var err error
	submitted := false
	defer func() { // deferred, because the limiter may panic
		if !submitted {
			g.settle(1, err)
		}
	}()
	c := &call{ctx: g.ctx, group: g}
	err = g.pool.submit(g.ctx.Context, entry{task: t, call: c, permits: permits}, persists)
	if submitted = err == nil; !submitted {
		err = g.ctx.Explain(err)
	}
}

// Wait waits until all tasks of the group have ended, and returns the group's first error: an
// error that a task returned, a *[PanicError] for a panic, [ErrGoexit], or an error of Go.
// Later errors are discarded; most are consequences of the first. No task of the group runs
// after Wait has returned.
//
// If the group's context ends, Wait removes the group's tasks from the queue at once, and
// still waits for the running ones.
func (g *Group) Wait() error {
	g.mu.Lock()
	if g.tasks > 0 && g.stopped == nil {
		g.stopped = make(chan struct{})
	}
	stopped := g.stopped
	g.mu.Unlock()
	if stopped != nil {
		select {
		case <-stopped:
		case <-g.ctx.Done():
			err := g.ctx.Ended()
			g.settle(g.pool.takeBack(nil, g, err), err)
			<-stopped
		}
	}
	g.cancel(nil)
	g.ctx.End()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// fail records an error. The first error ends the group's context before fail returns.
func (g *Group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failLocked(err)
}

func (g *Group) failLocked(err error) {
	if g.err == nil {
		g.err = err
		g.cancel(err)
	}
}

// settle records that n tasks have ended, each with err.
func (g *Group) settle(n int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n > 0 && err != nil {
		g.failLocked(err)
	}
	g.tasks -= n
	if g.tasks == 0 && g.stopped != nil {
		close(g.stopped)
		g.stopped = nil
	}
}
