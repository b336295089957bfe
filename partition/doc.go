// Package partition limits by key: each client, tenant or path has its own limiter. The limiter is created at the
// client's first request and dropped when it is idle, so the client notices nothing.
//
//	limits, err := partition.New(partition.Options[*http.Request, string]{
//		Key: func(r *http.Request) string { return userOf(r) }, // what you have authenticated
//		New: func(string) (core.Limiter, error) {
//			return core.NewTokenBucket(core.PerSecond(100, 20))
//		},
//	})
//	...
//	lease, err := limits.Acquire(r.Context(), r, 1)
//
// [Keyed] is a map of limiters that a hostile client cannot grow without bound: it holds at
// most Options.MaxPartitions limiters and drops idle ones. If there is no room for a key, its
// requests are rejected with [ErrFull], unless Options.Group is set: then keys without room share the limiter of
// their group. A [Limiter] is a
// limiter whose decision may depend on the request. [Shared], [Translate] and [Chain] make
// Limiters from others, and [For] makes a [core.Limiter] from a Limiter and one request.
//
// # Limits that change
//
// For limits that follow a configuration, set Options.Update, and call [Keyed.Refresh] after each change. With package
// spec, a tenant may have any number of limits, of any kind:
//
//	Update: func(tenant string, now core.Limiter) (core.Limiter, error) { return planOf(tenant).Apply(now, tenant) },
//	...
//	err := limits.Refresh("ann")
//
// The next request is decided under the new limits, and requests that wait move to the new limiter. If the kind of a
// limit stays the same, the permits that it has granted still count. For a complete server see "Limits per tenant" in
// docs/cookbook.
//
// # Partitions that are dropped
//
// A partition is dropped only if no request is using it and its limiter is a [core.Idler] that reports that it is
// idle. Idle means that all permits are available, and that a new limiter would decide in the same way. A limiter that
// is not an Idler is never dropped. No goroutine or timer does the sweeping: the requests do it.
package partition

// Inside: a sync.Map holds the entries. A ring of pages, under the mutex, decides which entries are swept next. One
// call in 32, chosen at random, looks at 16 entries before it calls its own limiter. A request that gets
// [core.ErrClosed] from a dropped entry looks for the next one of its key: a limiter of core retires by itself, and
// the entry of any other limiter is pinned by each request. Refresh exchanges an entry for another one in the same
// step: ARCHITECTURE.md describes the exchange of a limiter, which is that of a [core.Switch] too. No call copies a
// table of all entries: the sync.Map is a trie, and the ring grows page by page.
//
// No lock is held while a limiter of a user is asked whether it is idle, or while OnEvict runs. One call at a time does
// each, so there are two turns. A limiter may be asked while OnEvict runs, and OnEvict is told of it later. A call waits for a
// turn, but not for long, because the call that has it might be
// waiting for this one. A partition that is being created without a place gets the one of the partition that is dropped for
// it in the same step, so nobody else takes that.
