// Package memory measures the memory of idle limiters and of waiters.
package memory

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

func TestMain(m *testing.M) {
	// Every allocation is recorded: that is how the timers are counted.
	runtime.MemProfileRate = 1
	sidebyside.RunByDefault()
	goleak.VerifyTestMain(m)
}
