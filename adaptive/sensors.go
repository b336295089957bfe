package adaptive

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// CPU returns a sensor of the CPU utilization of this process: its CPU time since the last reading,
// divided by the time of GOMAXPROCS CPUs, from 0 to 1. The first reading covers the time since the call
// of CPU. A second reading at the same time repeats the last one, or is 0 if there was none.
//
// The CPU time comes from the kernel (getrusage, or GetProcessTimes on Windows), because that of
// runtime/metrics changes only with each garbage collection. On other systems it comes from
// runtime/metrics. It includes all threads of the process, also those in cgo and in system calls, but
// no other processes. If other processes use the CPUs, the reading stays low no matter how overloaded
// this process is, and a [Shed] with this sensor sheds nothing. Therefore chain the Shed with a limiter
// that counts permits.
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

// SchedulerLatency returns a sensor of the time that runnable goroutines waited for a CPU since the last
// reading, in seconds. The reading is the given quantile of all waits, such as 0.99. This is the queue
// that a request meets in its own process, and the first sign of overload. The first reading covers the
// time since the call of SchedulerLatency. If no goroutine was scheduled, the reading is 0. A quantile
// that is negative or NaN counts as 0, and one above 1 counts as 1.
//
// The reading is the upper bound of a bucket of a runtime/metrics histogram, whose buckets are about 10%
// wide. The runtime measures about one wait in eight, and only when it has ended. So a reading is late by
// the length of the queue, and may miss the queue if few goroutines ran since the last reading.
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

// quantileSince returns the quantile of the samples that were counted between last and counts. bounds has the lower
// bound of each bucket, followed by the upper bound of the last one.
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

// Heap returns a sensor of the heap's utilization: the live bytes that the last garbage collection found,
// divided by the memory limit of GOMEMLIMIT or debug.SetMemoryLimit, from 0 to 1. It changes with each
// garbage collection. Without a memory limit it reads almost 0.
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
