// Package burn keeps CPUs busy, for programs that show what limits do under load. Examples and
// bench use it: no package in examples/internal could be imported by bench.
package burn

import (
	"crypto/sha256"
	"sync"
	"time"
)

// CPU computes as much as one CPU can in d if it has nothing else to do. It measures the
// speed of the CPU at the first call, which should be without load.
func CPU(d time.Duration) { hash(int(d.Seconds() * float64(perSecond()))) }

// perSecond returns how many blocks a CPU hashes in a second: in the best of some
// attempts, because other goroutines may be using it.
var perSecond = sync.OnceValue(func() int {
	const attempts, blocks = 10, 2000
	best := time.Hour
	for range attempts {
		start := time.Now()
		hash(blocks)
		best = min(best, time.Since(start))
	}
	return int(blocks / best.Seconds())
})

func hash(blocks int) {
	var block [1024]byte
	for range blocks {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
}
