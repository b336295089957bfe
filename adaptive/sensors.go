package adaptive

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// CPU returns a sensor of how busy this process keeps its processors: the CPU time it used
// since the last reading, over what GOMAXPROCS processors have in that time, from 0 to 1.
// The first reading counts from the call of CPU. A second reading at the
// same instant repeats the last one, or is 0 if there was none.
//
// The CPU time is the kernel's account of the process (getrusage; GetProcessTimes on
// Windows): that of package runtime/metrics does not change from one garbage collection to the
// next, and is used only where there is nothing else. It covers all threads, those in cgo and
// in system calls too, but no other process. If other processes have the processors, the
// reading is low, however much this process has to do, and a [Shed] with this sensor alone
// sheds nothing: put a limiter that counts behind it.
func CPU() func() float64 {
	var mu sync.Mutex
	at, used, last := time.Now(), cpuTime(), 0.0
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		now, total := time.Now(), cpuTime()
		if !now.After(at) {
			return last
		}
		share := (total - used).Seconds() / now.Sub(at).Seconds() / float64(runtime.GOMAXPROCS(0))
		at, used, last = now, total, min(max(share, 0), 1)
		return last
	}
}

// SchedulerLatency returns a sensor of how long goroutines that could run waited for a
// processor since the last reading, in seconds: the quantile of all waits, such as 0.99. It is the queue
// that a request meets in its own process, and the first to show that there is too much to do. The first
// reading counts from the call of SchedulerLatency. If no goroutine was scheduled, the reading is 0. A
// quantile below 0 or NaN counts as 0, one above 1 as 1.
//
// It comes from a histogram of runtime/metrics, whose steps are of about a tenth; the
// reading is the upper bound of a step. The runtime times about one wait in eight, and only
// once it has ended. A reading is late by as long as the queue is, and it may miss the queue if
// few goroutines ran since the last.
func SchedulerLatency(quantile float64) func() float64 {
	const name = "/sched/latencies:seconds"
	var mu sync.Mutex
	sample := []metrics.Sample{{Name: name}}
	read := func() (counts []uint64, bounds []float64) {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return nil, nil
		}
		h := sample[0].Value.Float64Histogram()
		return h.Counts, h.Buckets
	}
	counts, _ := read()
	last := slices.Clone(counts)
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		counts, bounds := read()
		latency := quantileSince(last, counts, bounds, quantile)
		last = append(last[:0], counts...)
		return latency
	}
}

// quantileSince returns the quantile of what was counted from last to counts; bounds has
// the lower bound of each count, and behind them the upper one of the last.
func quantileSince(last, counts []uint64, bounds []float64, quantile float64) float64 {
	var total uint64
	for i, n := range counts {
		total += n - last[i]
	}
	if total == 0 {
		return 0
	}
	rank := uint64(1)
	if quantile > 0 { // NaN is not
		rank = max(uint64(math.Ceil(min(quantile, 1)*float64(total))), 1)
	}
	for i, n := range counts {
		if n -= last[i]; n < rank {
			rank -= n
			continue
		}
		if upper := bounds[i+1]; !math.IsInf(upper, 1) {
			return upper
		}
		return bounds[i]
	}
	return bounds[len(bounds)-1]
}

// Heap returns a sensor of how full the heap is: what the last garbage collection found
// alive, over the memory limit that GOMEMLIMIT or debug.SetMemoryLimit sets, from 0 to 1. It
// changes at each collection. Without a memory limit it reads nearly 0.
func Heap() func() float64 {
	return func() float64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gomemlimit:bytes"}}
		metrics.Read(sample)
		for _, s := range sample {
			if s.Value.Kind() != metrics.KindUint64 {
				return math.NaN()
			}
		}
		limit := sample[1].Value.Uint64()
		if limit == 0 {
			return 1
		}
		return min(float64(sample[0].Value.Uint64())/float64(limit), 1)
	}
}
