package compat_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	_ "golang.org/x/sync/errgroup" // in go.mod: its tests are run from a copy
)

// The tests of errgroup pass with a worker.Pool.
func TestErrgroup(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	copySource(t, "testdata/errgroup", filepath.Join(dir, "errgroup"), strings.NewReplacer())
	source := filepath.Join(moduleDir(t, "golang.org/x/sync"), "errgroup", "errgroup_test.go")
	copyFile(t, source, filepath.Join(dir, "errgroup", "errgroup_test.go"), strings.NewReplacer(
		"golang.org/x/sync/errgroup", "github.com/sluice-go/sluice/internal/compat/errgroup",
	).Replace)
	failed, passed, out := testCopy(t, dir, "./errgroup")
	assert.Empty(t, failed, "%s", out)
	assert.Equal(t, 6, passed, "%s", out)
}
