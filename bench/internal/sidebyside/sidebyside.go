// Package sidebyside runs implementations of the same work next to each other, under names
// that benchstat pivots on (benchstat -col /impl).
package sidebyside

import (
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Impl is one implementation of a benchmark's work.
type Impl struct {
	Name string // the value of the key impl
	Run  func(b *testing.B)
}

// Compare runs each implementation, as impl=Name, and reports its allocations.
func Compare(b *testing.B, impls ...Impl) {
	b.Helper()
	for i, run := range impls {
		impls[i].Run = func(b *testing.B) {
			b.ReportAllocs()
			run.Run(b)
		}
	}
	Each(b, impls...)
}

// Each runs each implementation, as impl=Name.
func Each(b *testing.B, impls ...Impl) {
	b.Helper()
	for _, im := range impls {
		b.Run("impl="+im.Name, im.Run)
	}
}

// Over runs f once for each value, as key=value.
func Over(b *testing.B, key string, values []int, f func(b *testing.B, value int)) {
	b.Helper()
	for _, v := range values {
		b.Run(key+"="+strconv.Itoa(v), func(b *testing.B) {
			b.ReportAllocs()
			f(b, v)
		})
	}
}

// Spread divides b.N operations among goroutines and measures from the instant that all
// are ready to the end of the last. Each runs work once, with its share; the shares differ
// by one at most.
func Spread(b *testing.B, goroutines int, work func(operations int)) {
	b.Helper()
	SpreadAfter(b, goroutines, func() {}, work)
}

// SpreadAfter is Spread that calls started when the clock starts. The goroutines may already
// be in work by then: it is for benchmarks that start with everybody queued.
func SpreadAfter(b *testing.B, goroutines int, started func(), work func(operations int)) {
	b.Helper()
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range goroutines {
		share := b.N / goroutines
		if i < b.N%goroutines {
			share++
		}
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			work(share)
		})
	}
	ready.Wait()
	b.ResetTimer()
	close(start)
	started()
	done.Wait()
	b.StopTimer()
}

// Smoke reports whether this run only checks that everything works: -benchtime=1x.
func Smoke() bool {
	return flag.Lookup("test.benchtime").Value.String() == "1x"
}

// SmokeSize is the largest size that a smoke run takes. The race detector refuses more than
// some thousand goroutines.
const SmokeSize = 1000

// Sizes returns the sizes, in a smoke run without those that take long.
func Sizes(sizes ...int) []int {
	if !Smoke() {
		return sizes
	}
	return slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return n > SmokeSize })
}

// Size returns n, in a smoke run SmokeSize if that is less.
func Size(n int) int {
	if Smoke() {
		return min(n, SmokeSize)
	}
	return n
}

// RunByDefault makes a run of all tests without -bench run each benchmark once, so that
// go test ./... shows that all of them work. Call it first in TestMain.
func RunByDefault() {
	flag.Parse()
	for _, name := range []string{"test.bench", "test.run", "test.list", "test.fuzz"} {
		if flag.Lookup(name).Value.String() != "" {
			return // the command line chose
		}
	}
	for name, value := range map[string]string{"test.bench": ".", "test.benchtime": "1x"} {
		if err := flag.Set(name, value); err != nil {
			panic(err) // the names of package testing's own flags
		}
	}
}
