// Package worker runs tasks on a pool of goroutines, each task under a lease of a limiter.
//
//	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8})
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
//	return group.Wait() // at most 8 fetches at a time; the first error cancels the rest
//
// A concurrency limiter bounds how many tasks run at a time, a rate limiter bounds how many
// start in a period, and a [core.Chain] of the two bounds both. Pools, channels and servers
// may share a limiter, and its limit may change while tasks run. The pool adds the goroutines,
// a queue, results and recovery from panics of tasks.
//
// Submit, Do, Map and Group.Go wait for permits even if the limiter's QueueLimit is 0. QueueLimit is for servers that
// shed load; a pool sheds load with [Pool.TrySubmit]. This holds for the limiters of packages core, adaptive and
// redislimit, and for partitions whose limiters come from these packages. With a custom limiter, the pool calls
// Acquire once per task, and a rejection is the error of the task, so give that limiter a queue.
//
// # Which call to use
//
//   - [Pool.Group] is for tasks that belong together, as with errgroup: their context ends
//     with the caller's and at the first error, and no task runs after [Group.Wait] returns.
//     It reports the first error as soon as it occurs.
//   - [Do] runs one function and returns its result.
//   - [Map] runs a function over a sequence and yields the results in order. An error is yielded
//     in the place of the result, and does not end the loop.
//   - [Pool.Submit] is for tasks that outlive their caller: the context given to Submit is not
//     passed to the task, so a timeout of the caller leaves the task running. [Pool.Wait]
//     returns the tasks' errors.
//   - [Pool.TrySubmit] is like Submit, but never waits.
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
// # Panics
//
// A panic of a task is recovered: see [PanicError]. If the limiter panics inside one of your calls, that call panics.
// This may happen in TrySubmit and, in a pool without a queue, also Submit, Do, Group.Go and the loop of Map. If the
// limiter panics on a goroutine of the pool, the panic becomes the error of the task whose lease was requested or
// released. Set Options.WithoutPanicRecovery if panics on goroutines of the pool should end the process.
package worker

// Inside: a job is a task that waits for its lease or has it. Accepted jobs wait in one queue, in the limiter's order, and
// calls that wait to submit are in another. Plain permits are taken and returned under the pool's mutex. A worker whose task
// ends takes the next task under the same lock, with the permits that it has if nobody else waits for them, and exits if
// there is no task. If the first job lacks permits, one worker looks after it: it yields for a while, because tasks that end
// have permits for the job, and then waits in the limiter for the job's lease. In a pool without a queue, the call that
// submitted the job waits there. While it does, the other jobs wait in the pool, so no task overtakes another.
