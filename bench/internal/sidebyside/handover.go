package sidebyside

import (
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

// HandOver measures permits that go from waiter to waiter. The caller holds all permits;
// each goroutine's cycle acquires and releases as often as it is told, b.N times in all.
// The clock starts when all of them wait, with release, which gives the held permits back.
func HandOver(b *testing.B, goroutines int, release func(), cycle func(operations int)) {
	b.Helper()
	goroutines = min(goroutines, b.N)
	before := Waiting()
	var done sync.WaitGroup
	for i := range goroutines {
		share := b.N / goroutines
		if i < b.N%goroutines {
			share++
		}
		done.Go(func() { cycle(share) })
	}
	UntilWaiting(b, before+goroutines)
	b.ResetTimer()
	release()
	done.Wait()
	b.StopTimer()
}

// Waiting returns how many goroutines are blocked.
func Waiting() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// UntilWaiting waits until n goroutines are blocked.
func UntilWaiting(b *testing.B, n int) {
	b.Helper()
	// A few of the runtime's own come and go.
	const own = 4
	for deadline := time.Now().Add(time.Minute); Waiting() < n-own; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d goroutines wait, want %d", Waiting(), n)
		}
	}
	time.Sleep(time.Millisecond)
}
