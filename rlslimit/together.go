package rlslimit

import (
	"context"
	"sync/atomic"
)

// maxTogether is how many calls of the store one request has in flight. A Redis client shares connections and pipelines among
// them.
const maxTogether = 64

// together calls do(0), …, do(n-1), several of them concurrently. It returns when all calls have returned, or ctx is done. It
// calls in for each result that came in time. For the others it calls late, on another goroutine, which ends as soon as they
// have returned.
func together[T any](ctx context.Context, n int, do func(int) T, in, late func(int, T)) {
	type result struct {
		i int
		v T
	}
	results := make(chan result, n)
	var next atomic.Int64
	for range min(n, maxTogether) {
		go func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				results <- result{i, do(i)}
			}
		}()
	}
	for left := n; left > 0; left-- {
		select {
		case r := <-results:
			in(r.i, r.v)
			continue
		case <-ctx.Done():
		}
		select {
		case r := <-results: // it came before ctx was done
			in(r.i, r.v)
			continue
		default:
		}
		go func() {
			for range left {
				r := <-results
				late(r.i, r.v)
			}
		}()
		return
	}
}
