// Package partition limits by key: each client, tenant or path has a limiter of its own, made
// when it first asks and dropped when nobody can tell any more.
//
// [Keyed] is a map of limiters that a hostile client cannot grow without end: it holds at most
// Options.MaxPartitions, drops those that are idle, and gives the keys that find no room to a
// limiter that they share. Anything that is asked for a request is a [Limiter]; [Shared],
// [Translate] and [Chain] make such limiters of others, and [For] makes a [core.Limiter] of
// one, for one request.
//
//	limits, err := partition.New(partition.Options[*http.Request, string]{
//		Key: func(r *http.Request) string { return r.Header.Get("X-Api-Key") },
//		New: func(string) (core.Limiter, error) {
//			return core.NewTokenBucket(core.PerSecond(100, 20))
//		},
//	})
//	...
//	lease, err := limits.Acquire(r.Context(), r, 1)
//
// A partition is dropped only if its limiter says that it is idle ([core.Idler]: every permit
// is available, so a new one is as good), and no request is in it. Limiters that do not say
// are never dropped. There is no goroutine and no timer: requests do the sweeping.
package partition
