package compat_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Keeps puddle in go.mod: its tests are run from a copy.
var _ = puddle.ErrClosedPool

// puddle's own tests pass with ours in place of the semaphore that it is built on.
func TestPuddle(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles and runs another test binary")
	}
	const theirs, ours = "golang.org/x/sync/semaphore", "github.com/sluice-go/sluice/compat/semaphore"
	dir := t.TempDir()
	copySource(t, moduleDir(t, "github.com/jackc/puddle/v2"), filepath.Join(dir, "puddle"), strings.NewReplacer(
		theirs, ours,
		"github.com/jackc/puddle/v2", "github.com/sluice-go/sluice/compat/puddle",
	))
	copySource(t, "semaphore", filepath.Join(dir, "semaphore"), strings.NewReplacer())
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	copyFile(t, "go.mod", filepath.Join(dir, "go.mod"), strings.NewReplacer("sluice => ..", "sluice => "+root))
	copyFile(t, "go.sum", filepath.Join(dir, "go.sum"), strings.NewReplacer())

	run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./puddle")
	run.Dir = dir
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.GreaterOrEqual(t, strings.Count(string(out), "\n--- PASS: "), 40, "tests are found, and pass")
}

// moduleDir returns where the go command keeps the source of a module.
func moduleDir(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", path).Output()
	require.NoError(t, err)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	return module.Dir
}

// copySource copies the Go files of a folder, and of the folders in it.
func copySource(t *testing.T, from, to string, edit *strings.Replacer) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o755))
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		switch source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name()); {
		case e.IsDir():
			copySource(t, source, target, edit)
		case filepath.Ext(source) == ".go":
			copyFile(t, source, target, edit)
		}
	}
}

func copyFile(t *testing.T, from, to string, edit *strings.Replacer) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, []byte(edit.Replace(string(text))), 0o644))
}
