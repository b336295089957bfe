package rlslimit

import (
	"context"
	"sync/atomic"
)

// mostTogether is how many questions of one request are at the store at once. A client of Redis shares connections and
// pipelines among them.
const mostTogether = 64

// together calls do with each number of the lanes: with those of a lane one after the other, and with those of different lanes at
// once. It returns when all calls have returned, or ctx is done. It calls in for each result that came in time. For the others
// it calls late, on another goroutine, which ends as soon as they have returned.
func together[T any](ctx context.Context, lanes [][]int, do func(int) T, in, late func(int, T)) {
	type result struct {
		i int
		v T
	}
	n := 0
	for _, lane := range lanes {
		n += len(lane)
	}
	results := make(chan result, n)
	var next atomic.Int64
	for range min(len(lanes), mostTogether) {
		go func() {
			for at := next.Add(1) - 1; at < int64(len(lanes)); at = next.Add(1) - 1 {
				for _, i := range lanes[at] {
					results <- result{i, do(i)}
				}
			}
		}()
	}
	for ; n > 0; n-- {
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
			for range n {
				r := <-results
				late(r.i, r.v)
			}
		}()
		return
	}
}
