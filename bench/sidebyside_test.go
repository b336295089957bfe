// Package bench compares Sluice with the libraries that you would otherwise use for the same work. README.md explains
// each benchmark.
package bench

import (
	"flag"
	"os"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain makes a run of all tests without -bench run each benchmark once, so that go test ./... shows that all of
// them work. It ignores the goroutines that ants starts at import.
func TestMain(m *testing.M) {
	ants := goleak.IgnoreCurrent()
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && flag.Lookup("test.run").Value.String() == "" {
		for name, value := range map[string]string{"test.bench": ".", "test.benchtime": "1x"} {
			if err := flag.Set(name, value); err != nil {
				panic(err) // these are flags of package testing
			}
		}
	}
	code := m.Run()
	if err := goleak.Find(ants); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// impl is one implementation of a benchmark's work. benchstat pivots on its name: benchstat -col /impl.
type impl struct {
	name string
	run  func(b *testing.B)
}

// compare runs each implementation, as impl=name.
func compare(b *testing.B, impls ...impl) {
	b.Helper()
	for _, i := range impls {
		b.Run("impl="+i.name, func(b *testing.B) {
			b.ReportAllocs()
			i.run(b)
		})
	}
}

// operation does its work n times and returns how often it was permitted.
type operation func(n int) (permitted int)

// measure runs b.N operations on the given number of goroutines. All of them must be permitted, or none.
func measure(b *testing.B, goroutines int, permitted bool, op operation) {
	b.Helper()
	var sum atomic.Int64
	spread(b, goroutines, func(n int) { sum.Add(int64(op(n))) })
	want := 0
	if permitted {
		want = b.N
	}
	if got := int(sum.Load()); got != want {
		b.Fatalf("%d operations were permitted, want %d", got, want)
	}
}

// spread divides b.N operations among goroutines. It measures from the instant at which all of them are ready until the
// last one has returned.
func spread(b *testing.B, goroutines int, work func(n int)) {
	b.Helper()
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range goroutines {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			work(share(b.N, goroutines, i))
		})
	}
	ready.Wait()
	b.ResetTimer()
	close(start)
	done.Wait()
	b.StopTimer()
}

// handOver measures permits that pass from waiter to waiter. The caller holds all permits; each goroutine acquires and
// releases one again and again. The clock starts when all of them wait; then release returns the held permits.
func handOver(b *testing.B, goroutines int, release func(), op operation) {
	b.Helper()
	goroutines = min(goroutines, b.N)
	before := waiting()
	var permitted atomic.Int64
	var done sync.WaitGroup
	for i := range goroutines {
		done.Go(func() { permitted.Add(int64(op(share(b.N, goroutines, i)))) })
	}
	const own = 4 // goroutines of the runtime that come and go
	for waiting() < before+goroutines-own {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Millisecond)
	b.ResetTimer()
	release()
	done.Wait()
	b.StopTimer()
	if got := int(permitted.Load()); got != b.N {
		b.Fatalf("%d of %d operations were permitted", got, b.N)
	}
}

// share returns how many of n operations goroutine i does.
func share(n, goroutines, i int) int { return (n + i) / goroutines }

// waiting returns how many goroutines are blocked.
func waiting() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// sized runs f once per value, as key=value.
func sized(b *testing.B, key string, values []int, f func(b *testing.B, value int)) {
	b.Helper()
	for _, v := range values {
		b.Run(key+"="+strconv.Itoa(v), func(b *testing.B) { f(b, v) })
	}
}
