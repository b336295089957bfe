package worker

import (
	"context"
	"sync"

	"github.com/sluice-go/sluice/internal/linked"
)

// Group is a set of tasks that belong together, as with errgroup.WithContext, under the
// pool's limit. The tasks' context ends with the context given to [Pool.Group], with the
// group's first error or panic, when Close cancels, and when Wait returns.
//
// Call [Group.Go] for each task and [Group.Wait] once at the end, which frees what the group
// holds. A group is used once: after Wait it starts nothing. Groups of one pool share its
// limit, its queue and nothing else. A task of the pool may use a group of the same pool only
// if enough permits are left: it keeps its own lease while it waits.
//
// A Group is safe for concurrent use; its tasks may call Go.
type Group struct {
	pool   *Pool
	ctx    *linked.Call // the tasks'
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	tasks   int           // given to Go and not ended
	stopped chan struct{} // closed when tasks is 0 again; nil: no Wait call waits
	err     error         // the first
}

// Group returns an empty group whose tasks' context is derived from ctx.
func (p *Pool) Group(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{pool: p, ctx: p.life.Begin(ctx), cancel: cancel}
}

// Go runs a task under a lease of one permit. It waits until the task is admitted or, if
// the pool has a queue, queued; if the pool is busy it waits even if the limiter rejects
// every waiter. Once the group's context has ended Go starts nothing, and a task that waits
// for its lease never runs. So unlike with errgroup, a task given to Go may never be called.
//
// An error that keeps a task from being admitted, such as [ErrClosed], a closed limiter's
// or ctx.Err(), is an error of the group, as is a nil task.
func (g *Group) Go(t Task) { g.GoN(1, t) }

// GoN is Go for a task whose lease has the given number of permits, which are checked as by
// [Pool.SubmitN].
func (g *Group) GoN(permits int, t Task) {
	g.mu.Lock()
	g.tasks++
	g.mu.Unlock()
	var err error
	submitted := false
	defer func() { // the limiter may panic, too
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

// Wait waits until all tasks of the group have ended, and returns the group's first error: a
// task's own, a *[PanicError] for a panic, [ErrGoexit], or the error of a Go. Later errors
// are lost; most are the consequences of the first. No task of the group runs after Wait.
//
// When the group's context ends, queued tasks of the group are removed at once; Wait still
// waits for those that run.
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

// fail notes an error. The first ends the group's context, before fail returns.
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

// settle notes that n tasks have ended, each with err.
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
