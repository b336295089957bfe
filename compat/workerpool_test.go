package compat_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/gammazero/workerpool" // in go.mod: its tests are run from a copy
	"github.com/stretchr/testify/assert"
)

// workerpoolDifferences are the tests of workerpool that fail with ours, and why.
var workerpoolDifferences = map[string]string{
	"TestWorkerTimeout":   noIdle,
	"TestWorkerNoTimeout": noIdle,
}

const noIdle = "they count idle workers, and an idle worker.Pool has no goroutines"

// The tests of gammazero/workerpool pass with a worker.Pool, but for the differences above.
func TestWorkerpool(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	copySource(t, "testdata/workerpool", filepath.Join(dir, "workerpool"), strings.NewReplacer())
	source := filepath.Join(moduleDir(t, "github.com/gammazero/workerpool"), "workerpool_test.go")
	copyFile(t, source, filepath.Join(dir, "workerpool", "workerpool_test.go"), strings.Clone)
	failed, passed, out := testCopy(t, dir, "./workerpool")
	assert.Equal(t, slices.Sorted(maps.Keys(workerpoolDifferences)), failed, "%s", out)
	assert.Equal(t, 20, passed, "%s", out)
}
