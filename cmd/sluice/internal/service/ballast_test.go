package service

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestBallast: there is no ballast if the user has set the garbage collector or a memory limit.
func TestBallast(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        uint64
	}{
		{"GOGC", "", ballast},
		{"GOGC", "100", 0},
		{"GOMEMLIMIT", "100MiB", 0},
	} {
		t.Setenv("GOGC", "")
		t.Setenv("GOMEMLIMIT", "")
		t.Setenv(test.name, test.value)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		drop := holdBallast()
		runtime.ReadMemStats(&after)
		drop()
		assert.InDelta(t, test.want, after.TotalAlloc-before.TotalAlloc, ballast/8, "%s=%s", test.name, test.value)
	}
}
