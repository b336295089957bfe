package limiter

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// compareNamed measures the operations of each name with how. The operations are made anew
// for each measurement.
func compareNamed(b *testing.B, names []string, operations func(*testing.B) map[string]func(int) int, how func(*testing.B, func(int) int)) {
	b.Helper()
	impls := make([]sidebyside.Impl, 0, len(names))
	for _, name := range names {
		impls = append(impls, sidebyside.Impl{Name: name, Run: func(b *testing.B) {
			operation, ok := operations(b)[name]
			if !ok {
				b.Fatalf("no operation %q", name)
			}
			how(b, operation)
		}})
	}
	sidebyside.Compare(b, impls...)
}

// allCores measures operation from as many goroutines as there are cores.
func allCores(b *testing.B, operation func(int) int) {
	b.Helper()
	spread(b, runtime.GOMAXPROCS(0), operation)
}

// spread measures operation from n goroutines. One that fails spoils the benchmark.
func spread(b *testing.B, n int, operation func(int) int) {
	b.Helper()
	var failed atomic.Int64
	sidebyside.Spread(b, n, func(operations int) { failed.Add(int64(operation(operations))) })
	if f := failed.Load(); f != 0 {
		b.Fatalf("%d operations did not do the work they stand for", f)
	}
}
