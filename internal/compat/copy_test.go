package compat_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newCopy returns a directory with a copy of this module's go.mod, for packages of others in
// which a part is replaced.
func newCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	copyFile(t, "go.mod", filepath.Join(dir, "go.mod"), func(text string) string {
		return strings.ReplaceAll(text, " => ../..", " => "+root)
	})
	copyFile(t, "go.sum", filepath.Join(dir, "go.sum"), strings.Clone)
	return dir
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

// copySource copies the Go files of a directory, and of the directories in it.
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
			copyFile(t, source, target, edit.Replace)
		}
	}
}

func copyFile(t *testing.T, from, to string, edit func(string) string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, []byte(edit(string(text))), 0o644))
}

// testCopy runs the tests of packages of a copy. It returns the names of those that failed, sorted, with those of subtests,
// and how many passed.
func testCopy(t *testing.T, dir string, args ...string) (failed []string, passed int, output string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-v"}, args...)...)
	run.Dir = dir
	out, err := run.CombinedOutput()
	for _, m := range testResult.FindAllStringSubmatch(string(out), -1) {
		if m[1] == "PASS" {
			passed++
		} else {
			failed = append(failed, m[2])
		}
	}
	require.True(t, err == nil || len(failed) > 0, "the tests did not run: %s", out)
	slices.Sort(failed)
	return failed, passed, string(out)
}

var testResult = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): (\S+)`)
