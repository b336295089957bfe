package partitions

import (
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
)

// fullBucket returns a bucket that is full again 10 ms after it was used.
func fullBucket(string) (core.Limiter, error) {
	return core.NewTokenBucket(core.Every(10*time.Millisecond, 5))
}

var nextKey int

func takeNew(b *testing.B, take func(string) bool) {
	b.Helper()
	for b.Loop() {
		nextKey++
		if !take(strconv.Itoa(nextKey)) {
			b.Fatal("refused")
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
}

func rivals(b *testing.B) []sidebyside.Impl {
	b.Helper()
	var impls []sidebyside.Impl
	for _, w := range ways(b)[1:] {
		impls = append(impls, sidebyside.Impl{Name: w.name, Run: func(b *testing.B) { takeNew(b, w.take) }})
	}
	return impls
}

// stub is one limiter for all keys, so that only the map is measured.
type stub struct{ *core.TokenBucket }

// BenchmarkGrow takes a permit of each of a million keys, and measures the longest single
// call: an operation is all of them, and the shortest of the operations' longest counts.
// longest-ns is by the clock, and has what the collector and other programs took;
// longest-cpu-ns is what the call's own thread took of a processor.
func BenchmarkGrow(b *testing.B) {
	keys := names(sidebyside.Size(1_000_000))
	grow := func(b *testing.B, begin func(b *testing.B) func(string)) {
		b.Helper()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		best, bestCPU := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		for range sidebyside.Size(10) {
			take := begin(b)
			runtime.GC()
			longest, longestCPU := time.Duration(0), time.Duration(0)
			for _, key := range keys {
				cpu, start := threadTime(), time.Now()
				take(key)
				longest = max(longest, time.Since(start))
				longestCPU = max(longestCPU, threadTime()-cpu)
			}
			best, bestCPU = min(best, longest), min(bestCPU, longestCPU)
		}
		b.ReportMetric(float64(best), "longest-ns")
		if bestCPU > 0 {
			b.ReportMetric(float64(bestCPU), "longest-cpu-ns")
		}
		b.ReportMetric(0, "ns/op")
	}
	l := stub{bucket()}
	sidebyside.Each(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			grow(b, func(b *testing.B) func(string) {
				b.Helper()
				k := newKeyed(b, 0, func(string) (core.Limiter, error) { return l, nil })
				return func(key string) { k.TryAcquire(key, 1) }
			})
		}},
		sidebyside.Impl{Name: "sync.Map+core", Run: func(b *testing.B) {
			grow(b, func(*testing.B) func(string) {
				m := new(sync.Map)
				return func(key string) {
					v, _ := m.LoadOrStore(key, l)
					v.(core.Limiter).TryAcquire(1)
				}
			})
		}},
		sidebyside.Impl{Name: "map+RWMutex+xtime-rate", Run: func(b *testing.B) {
			grow(b, func(*testing.B) func(string) {
				m := &mutexMap{m: make(map[string]*rate.Limiter)}
				return func(key string) { m.limiter(key).Allow() }
			})
		}},
	)
}

// BenchmarkKeyMemory measures what a million keys take beside the keys and the limiters: one
// limiter serves them all.
func BenchmarkKeyMemory(b *testing.B) {
	keys := names(sidebyside.Size(1_000_000))
	l := stub{bucket()}
	measure := func(b *testing.B, begin func(b *testing.B) (take func(string), all any)) {
		b.Helper()
		for b.Loop() {
		}
		before := heapInUse()
		take, all := begin(b)
		for _, key := range keys {
			take(key)
		}
		b.ReportMetric((heapInUse()-before)/float64(len(keys)), "heap-B/key")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(all)
	}
	sidebyside.Each(b,
		sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
			measure(b, func(b *testing.B) (func(string), any) {
				b.Helper()
				k := newKeyed(b, 0, func(string) (core.Limiter, error) { return l, nil })
				return func(key string) { k.TryAcquire(key, 1) }, k
			})
		}},
		sidebyside.Impl{Name: "sync.Map+core", Run: func(b *testing.B) {
			measure(b, func(*testing.B) (func(string), any) {
				m := new(sync.Map)
				return func(key string) { m.LoadOrStore(key, l) }, m
			})
		}},
		sidebyside.Impl{Name: "map", Run: func(b *testing.B) {
			measure(b, func(*testing.B) (func(string), any) {
				m := make(map[string]core.Limiter)
				return func(key string) { m[key] = l }, m
			})
		}},
	)
	runtime.KeepAlive(keys)
}

func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkHostileKeys sends 10 million different keys against 100,000 places, as fast as it
// goes, while an honest key asks now and then: heap-B is the heap in use at the end, honest-ns
// the median and the 99th percentile of the honest calls.
func BenchmarkHostileKeys(b *testing.B) {
	n := sidebyside.Size(10_000_000)
	sidebyside.Each(b, sidebyside.Impl{Name: "sluice", Run: func(b *testing.B) {
		before := heapInUse()
		k := newKeyed(b, 100_000, fullBucket)
		honest := make([]time.Duration, 0, n/100)
		start := time.Now()
		for i := range n {
			k.TryAcquire(strconv.Itoa(i), 1)
			if i%100 == 0 {
				t := time.Now()
				k.TryAcquire("honest", 1)
				honest = append(honest, time.Since(t))
			}
		}
		elapsed := time.Since(start)
		if most := 100_000; k.Len() > most {
			b.Fatal(k.Len(), "live")
		}
		b.ReportMetric(heapInUse()-before-8*float64(cap(honest)), "heap-B")
		slices.Sort(honest)
		b.ReportMetric(float64(honest[len(honest)/2]), "honest-median-ns")
		b.ReportMetric(float64(honest[len(honest)*99/100]), "honest-p99-ns")
		b.ReportMetric(float64(n)/elapsed.Seconds(), "keys/s")
		b.ReportMetric(0, "ns/op")
		for b.Loop() {
		}
	}})
}
