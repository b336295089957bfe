// Package worker runs tasks on a pool of goroutines, each task under a lease of a limiter.
//
//	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8, QueueLimit: 100})
//	if err != nil {
//		return err
//	}
//	pool, err := worker.New(worker.Options{Limiter: limiter})
//	if err != nil {
//		return err
//	}
//	group := pool.Group(ctx)
//	for _, url := range urls {
//		group.Go(func(ctx context.Context) error { return fetch(ctx, url) })
//	}
//	return group.Wait() // at most 8 fetches at once; the first error cancels the rest
//
// A concurrency limiter bounds how many tasks run at once, a rate limiter bounds how many
// start in a period, and a [core.Chain] of the two bounds both. Pools, channels and servers
// may share a limiter, which then needs a QueueLimit, and its limit may change while tasks
// run. The pool adds the goroutines, a queue, results and recovery from panics of tasks. A panic
// of the limiter is not recovered: on a goroutine of the pool it ends the process.
//
// # Which call to use
//
//   - [Pool.Group] is for tasks that belong together, as with errgroup: their context ends
//     with the caller's and at the first error, and no task runs after [Group.Wait] returns.
//   - [Do] runs one function and returns its result.
//   - [Map] runs a function over a sequence and yields the results in order.
//   - [Pool.Submit] is for tasks that outlive their caller: the context given to Submit is not
//     passed to the task, so a timeout of the caller leaves the task running. [Pool.Wait]
//     returns the tasks' errors.
//   - [Pool.TrySubmit] is Submit that never waits.
//
// A pool starts goroutines when there is work and ends them when there is none. An idle pool
// has no goroutines, and is garbage-collected even if it was never closed. [Pool.Close] stops
// the pool from accepting tasks and waits for the tasks that it has accepted. A pool that is
// used in a testing/synctest bubble belongs to that bubble.
//
// In the terminology of the Go memory model, a call that submits a task synchronizes before
// the start of the task, and the end of the task synchronizes before the return of a
// Pool.Wait, Group.Wait, Do, Map or Close that waited for it.
//
// # Inside
//
// A task that the pool accepts is a job, in the pool's queue until it has its lease. At most one
// worker leads: it has taken the head of the queue and waits for its lease, so nobody overtakes.
// Once it has the lease it starts another worker if work is left, and runs its task. A worker
// whose task ends looks for the next under the same lock, and leaves if there is none or another
// leads. Plain permits are taken and given back under the pool's mutex; a leader is needed only
// while there are none. In a pool without a queue each call asks the limiter itself, those of
// Group.Go and Map one after the other.
package worker
