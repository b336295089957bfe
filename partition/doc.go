// Package partition limits by key: each client, tenant or path has a limiter of its own, made
// at its first request and dropped once nobody can notice.
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
// [Keyed] is a map of limiters that a hostile client cannot grow without end: it holds at most
// Options.MaxPartitions, drops those that are idle, and passes the requests of keys that find
// no room to a limiter that they share. A limiter that is asked about a request is a [Limiter].
// [Shared], [Translate] and [Chain] make such limiters from others, and [For] makes a
// [core.Limiter] from one, for one request.
//
// A partition is dropped only if its limiter is a [core.Idler] that reports to be idle, which
// means that all permits are available and a new limiter is as good, and if no request is in
// it. A limiter that is no Idler is never dropped. There is no goroutine and no timer: requests
// do the sweeping.
package partition
