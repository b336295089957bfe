// Package worker runs tasks on a pool of goroutines, each task under a lease of a limiter.
//
//	limiter, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 8, QueueLimit: 100})
//	pool, err := worker.New(worker.Options{Limiter: limiter})
//	group := pool.Group(ctx)
//	for _, url := range urls {
//		group.Go(func(ctx context.Context) error { return fetch(ctx, url) })
//	}
//	err = group.Wait() // at most 8 at once; the first error cancels the rest
//
// The limiter sets the limit: a concurrency limiter bounds how many tasks run at once, a
// rate limiter how many start, and a chain of both does both. Pools, channels and servers
// may share a limiter, and its limits may change while tasks run. The pool adds the
// goroutines, a queue, results and the containment of panics.
//
// # Which call to use
//
//   - [Pool.Group] is for tasks that belong together, as with errgroup: their context ends
//     with the caller's and with the first error, and no task runs after Wait.
//   - [Do] runs one function and returns its result.
//   - [Map] runs a function over a sequence and yields the results in order.
//   - [Pool.Submit] is for tasks that outlive their caller: the context given to Submit does
//     not reach the task, so a timeout of the caller leaves the task running. [Pool.Wait]
//     returns the errors.
//   - [Pool.TrySubmit] never waits.
//
// A pool starts goroutines when there is work and ends them when there is none. A pool at
// rest holds none, and need not be closed to be collected. [Pool.Close] stops it from
// accepting tasks and waits for those it has accepted.
//
// In the terminology of the Go memory model, a call that submits a task synchronizes before
// the start of the task, and the end of the task synchronizes before the return of a Wait,
// Group.Wait, Do, Map or Close that waited for it.
package worker
