package compat_test

import (
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/alitto/pond/v2" // in go.mod: its tests are run from a copy
	"github.com/stretchr/testify/assert"
)

// The tests of pond pass with a worker.Pool in place of its pool, on which all else in pond is built.
func TestPond(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	ours := strings.NewReplacer("github.com/alitto/pond/v2", "github.com/sluice-go/sluice/internal/compat/pond")
	copySource(t, moduleDir(t, "github.com/alitto/pond/v2"), filepath.Join(dir, "pond"), ours)
	copySource(t, "testdata/pond", filepath.Join(dir, "pond"), ours)
	failed, passed, out := testCopy(t, dir, "./pond")
	assert.Empty(t, failed, "%s", out)
	assert.Equal(t, 71, passed, "%s", out)
}
