package compat_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/assert"
)

// Keeps puddle in go.mod: its tests are run from a copy.
var _ = puddle.ErrClosedPool

// puddle's own tests pass with ours in place of the semaphore that it is built on.
func TestPuddle(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	dir := newCopy(t)
	copySource(t, moduleDir(t, "github.com/jackc/puddle/v2"), filepath.Join(dir, "puddle"), strings.NewReplacer(
		"golang.org/x/sync/semaphore", "github.com/sluice-go/sluice/internal/compat/semaphore",
		"github.com/jackc/puddle/v2", "github.com/sluice-go/sluice/internal/compat/puddle",
	))
	copySource(t, "testdata/semaphore", filepath.Join(dir, "semaphore"), strings.NewReplacer())
	failed, passed, out := testCopy(t, dir, "./puddle")
	assert.Empty(t, failed, "%s", out)
	assert.GreaterOrEqual(t, passed, 40, "tests are found, and pass")
}
