package compat_test

import (
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/sourcegraph/conc" // in go.mod: its tests are run from a copy
	"github.com/stretchr/testify/assert"
)

// The tests of conc pass with a worker.Pool in place of its WaitGroup and its Pool, on which all else in conc is built.
func TestConc(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	ours := strings.NewReplacer("github.com/sourcegraph/conc", "github.com/sluice-go/sluice/compat/conc")
	copySource(t, moduleDir(t, "github.com/sourcegraph/conc"), filepath.Join(dir, "conc"), ours)
	copySource(t, "testdata/conc", filepath.Join(dir, "conc"), ours)
	failed, passed, out := testCopy(t, dir, "./conc/...")
	assert.Empty(t, failed, "%s", out)
	assert.Equal(t, 153, passed, "%s", out)
}
