package worker

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/wait"
)

// Group is a set of tasks that belong together, as with errgroup.WithContext, run under the pool's limit. Create it
// with [Pool.Group]. The tasks' context ends with the context given to Pool.Group, at the group's first error or
// panic, when [Pool.Close] cancels the tasks, and when Wait returns.
//
// Call [Group.Go] for each task, and then [Group.Wait], which also ends the group's context. A group cannot be reused:
// after Wait it starts no task. The zero Group accepts no tasks: its Go returns false, and its Wait returns
// [ErrClosed]. If Wait is never called, the group is garbage-collected once its tasks have ended. Its context then
// ends with the context given to Pool.Group. Groups of one pool share the pool's limit and queue, and nothing else. A
// task that uses a group of its own pool keeps its lease and its goroutine while it waits for the group, so the
// limiter and Options.Workers need room for both. It is better to give the groups inside tasks a pool and a limiter of
// their own.
//
// A Group is safe for concurrent use; its tasks may call Go.
type Group struct {
	owner

	pool *Pool

	tasks atomic.Int64 // tasks given to Go that have not ended; below 0: the group takes no more

	mu    sync.Mutex          // guards the fields below
	waits wait.List[struct{}] // Wait calls; woken when tasks becomes 0
	err   error               // the first error
}

// groupOver is what tasks is set to when Wait returns.
const groupOver = math.MinInt64

// Group returns an empty group whose tasks' context is derived from ctx.
func (p *Pool) Group(ctx context.Context) *Group {
	g := &Group{pool: p, owner: owner{ctx: p.life.New(ctx)}}
	g.group = g
	return g
}

// Go runs a task under a lease of one permit. It waits until the task has its lease or is in the
// pool's queue, even if the limiter's QueueLimit is 0, and reports whether the group took the task.
//
// True means that the task has run when Wait returns, with one exception: if the group has an error or its
// context has ended, a task that is still waiting for its lease never runs. False means that the task will not
// run, for one of these reasons:
//
//   - The group's context has ended, for example at the group's first error.
//   - The pool is closed, or Wait has returned.
//   - The task is nil, or the limiter has rejected it.
//
// Stop producing at the first false: the group has ended, and later calls return false too.
//
// If a task cannot run, the reason becomes the group's error, unless Wait has returned. The error is [ErrClosed],
// ctx.Err(), an error for a nil task, the limiter's rejection, or [core.ErrClosed] if the limiter is closed. A rate
// limiter of package core rejects a task immediately if its permits would become available after the deadline of the
// group's context; this rejection matches [context.DeadlineExceeded].
func (g *Group) Go(t Task) bool { return g.GoN(1, t) }

// GoN is like Go, for a task whose lease has the given number of permits. If the number is invalid, the group's error
// is the one that [Pool.SubmitN] would return.
func (g *Group) GoN(permits int, t Task) (taken bool) {
	if g.pool == nil { // the zero Group
		return false
	}
	switch tasks := g.tasks.Add(1); {
	case tasks < 0:
		g.tasks.Add(-1)
		return false // and Wait has returned, so the group's error stays as it is
	case tasks == 1:
		g.join()
	}
	var err error
	defer func() { // deferred, because the limiter may panic
		if !taken {
			g.finish(1, err)
		}
	}()
	err = g.pool.submit(g.ctx.Context, job{task: t, permits: permits, owner: &g.owner}, true)
	if err != nil {
		err = g.ctx.Explain(err)
	}
	return err == nil
}

// Wait waits until all tasks of the group have ended, and returns the group's first error: an error that a task
// returned, a *[PanicError] for a panic, [ErrGoexit], or an error of Go. Later errors are discarded; most are
// consequences of the first. No task of the group runs after Wait has returned, even if other goroutines call Go
// meanwhile: Wait also waits for the tasks of these calls. When no task is left, the group is over and accepts no
// more. Call Wait after the last call of Go. A later Go returns false and starts nothing, and a later Wait returns the
// same error again.
//
// If the group's context ends, Wait removes the group's tasks from the queue immediately, and still waits for the
// running ones. If a task did not run because the context given to Pool.Group has ended, the error is that context's
// Err, unchanged.
func (g *Group) Wait() error {
	if g.pool == nil { // the zero Group
		return ErrClosed
	}
	if over, err := g.wait(g.ctx.Done()); over {
		return err
	}
	g.finish(g.pool.takeBack(&g.owner), reasonToEnd(g.ctx))
	_, err := g.wait(nil)
	return err
}

// join makes Close end the group's context. It is called when the group has its first task, also after it had none.
func (g *Group) join() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tasks.Load() > 0 {
		_ = g.ctx.Join() // if the pool is closed, it does not accept the task
	}
}

// wait waits until the group has no tasks, and ends it. It reports false if done ends the wait.
func (g *Group) wait(done <-chan struct{}) (over bool, err error) {
	g.mu.Lock()
	for !g.tasks.CompareAndSwap(0, groupOver) && g.tasks.Load() > 0 {
		if g.waits.Await(&g.mu, done) == wait.Canceled {
			g.mu.Unlock()
			return false, nil
		}
	}
	err = g.err
	g.mu.Unlock()
	g.ctx.End()
	return true, err
}

// fail records an error. The first error ends the group's context, and it has ended when fail returns.
func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	first := g.err
	g.mu.Unlock()
	g.ctx.Cancel(first) // without the mutex, because this may call a function of the caller's context
}

// finish records that n tasks have ended, each with err.
func (g *Group) finish(n int, err error) {
	if n > 0 && err != nil {
		g.fail(err)
	}
	if g.tasks.Add(-int64(n)) != 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tasks.Load() == 0 {
		g.ctx.Leave() // a group that is not waited for is not kept alive by its pool
	}
	for w := g.waits.Decide(wait.Granted); w != nil; w = g.waits.Decide(wait.Granted) {
		w.Wake() // it looks again: Go may have taken another task since
	}
}
