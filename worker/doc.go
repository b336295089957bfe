// Package worker runs tasks on a pool of goroutines, each task under a lease of a limiter.
//
// The limiter says how much: a concurrency limiter caps how many tasks run at once, a rate
// limiter how many start, a chain of both does both. Several pools, channels and servers
// may share one limiter, and its limits may change while tasks run. The pool brings the
// goroutines, the queue, the futures and the containment of panics.
//
// [Pool.Submit] is for tasks whose result nobody waits for one by one: their errors come
// back from [Pool.Wait]. [Do] waits for a result; [Map] runs a function over a sequence
// and yields the results in its order. [Pool.TrySubmit] never waits. With
// Options.CancelOnError the first error cancels the rest.
//
// Goroutines start when there is work and end when there is none: a pool that rests holds
// none, and need not be closed to be collected. Close it to stop tasks from coming and to
// wait for those that are there.
//
// The memory model: a Submit synchronizes before the start of its task, and the end of a
// task before the return of the Wait, Do, Close or Map that waited for it.
package worker
