//go:build !unix && !windows

package adaptive

import (
	"runtime/metrics"
	"time"
)

// cpuTime returns the CPU time that this process has used, as of the last garbage
// collection.
func cpuTime() time.Duration {
	sample := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(sample)
	for _, s := range sample {
		if s.Value.Kind() != metrics.KindFloat64 {
			return 0
		}
	}
	return time.Duration((sample[0].Value.Float64() - sample[1].Value.Float64()) * float64(time.Second))
}
