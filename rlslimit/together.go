package rlslimit

import (
	"context"
	"sync/atomic"
)

// mostTogether is how many questions of one request are at the store at once. A client of Redis shares connections and
// pipelines among them.
const mostTogether = 64

// together calls do(0) to do(n-1) at once. It returns when all of them have returned, or ctx is done. It calls in for each
// result that came in time. For the others it calls late, on another goroutine, which ends as soon as they have returned.
func together[T any](ctx context.Context, n int, do func(int) T, in, late func(int, T)) {
	if n == 0 {
		return
	}
	type result struct {
		i int
		v T
	}
	results := make(chan result, n)
	var next atomic.Int64
	for range min(n, mostTogether) {
		go func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				results <- result{int(i), do(int(i))}
			}
		}()
	}
	for done := range n {
		select {
		case r := <-results:
			in(r.i, r.v)
		case <-ctx.Done():
			go func() {
				for range n - done {
					r := <-results
					late(r.i, r.v)
				}
			}()
			return
		}
	}
}
