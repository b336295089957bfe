package adaptive_test

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

// busy keeps one CPU busy for d.
func busy(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

func TestCPU(t *testing.T) {
	sensor := adaptive.CPU()
	busy(20 * time.Millisecond)
	read := sensor()
	assert.Greater(t, read, 0.0, "CPU time shows, without a garbage collection")
	assert.LessOrEqual(t, read, 1.0)
	for range 1000 {
		if read := sensor(); !(read >= 0 && read <= 1) {
			t.Fatal(read)
		}
	}
}

// At one instant nothing new can be said; in a bubble time stands still.
func TestCPUAtOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sensor := adaptive.CPU()
		assert.Zero(t, sensor(), "no reading yet")
		time.Sleep(time.Second)
		read := sensor()
		assert.GreaterOrEqual(t, read, 0.0)
		assert.LessOrEqual(t, read, 1.0)
		assert.InDelta(t, read, sensor(), 0)
	})
}

func TestSchedulerLatency(t *testing.T) {
	median, most := adaptive.SchedulerLatency(0.5), adaptive.SchedulerLatency(7)
	var wg sync.WaitGroup
	for range 100 * runtime.GOMAXPROCS(0) {
		wg.Go(func() { busy(10 * time.Microsecond) })
	}
	wg.Wait()
	m, all := median(), most()
	assert.Greater(t, all, 0.0)
	assert.LessOrEqual(t, m, all)
	assert.False(t, math.IsInf(all, 0))
	assert.False(t, math.IsNaN(adaptive.SchedulerLatency(math.NaN())()))
}

func TestHeap(t *testing.T) {
	sensor := adaptive.Heap()
	limit := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(limit)
	debug.SetMemoryLimit(math.MaxInt64)
	assert.Less(t, sensor(), 1e-3)
	held := make([]byte, 16<<20)
	debug.SetMemoryLimit(64 << 20)
	runtime.GC()
	read := sensor()
	assert.GreaterOrEqual(t, read, 0.25)
	assert.LessOrEqual(t, read, 1.0)
	debug.SetMemoryLimit(1)
	assert.GreaterOrEqual(t, sensor(), 1.0)
	runtime.KeepAlive(held)
}

func TestSensorsAreSafeForConcurrentUse(t *testing.T) {
	for name, sensor := range map[string]func() float64{
		"CPU": adaptive.CPU(), "SchedulerLatency": adaptive.SchedulerLatency(0.99), "Heap": adaptive.Heap(),
	} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 50 {
						sensor()
					}
				})
			}
			wg.Wait()
		})
	}
}

// Nothing is granted while one in a hundred goroutines waits for a CPU for 20 ms or longer.
func ExampleSchedulerLatency() {
	shed := core.Must(adaptive.NewShed(adaptive.ShedOptions{Probe: adaptive.SchedulerLatency(0.99), Threshold: 0.020}))
	defer shed.Close()
	fmt.Println(shed.Statistics().Granted)
	// Output: 0
}

// Nothing is granted from 85% of the memory limit on, until the heap is below 75%.
func ExampleHeap() {
	shed := core.Must(adaptive.NewShed(adaptive.ShedOptions{Probe: adaptive.Heap(), Threshold: 0.85, ResumeBelow: 0.75}))
	defer shed.Close()
	fmt.Println(shed.TryAcquire(1).Acquired()) // this program has no memory limit
	// Output: true
}

func ExampleNewShed() {
	// Nothing is granted once the CPUs are 90% busy, until they are less than 80% busy.
	shed := core.Must(adaptive.NewShed(adaptive.ShedOptions{
		Name:        "cpu",
		Probe:       adaptive.CPU(),
		Threshold:   0.9,
		ResumeBelow: 0.8,
	}))
	defer shed.Close()
	fmt.Println(shed.Statistics().Granted)
	// Output: 0
}
