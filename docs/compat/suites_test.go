package compat_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/alitto/pond/v2" // in go.mod: its tests are run from a copy
	_ "github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"
	_ "golang.org/x/sync/errgroup"
)

// Why tests of x/time/rate fail with a core.TokenBucket.
const (
	backwards = "an instant before the last one: time that has passed does not pass again, so no token comes for it"
	movesUp   = "a canceled reservation: the waiters behind it move up, while x/time/rate returns only tokens that were not reserved since"
)

// The tests of other people's packages pass with ours in place of theirs: x/time/rate's with a core.TokenBucket, those of
// errgroup and pond with a worker.Pool, on which all else in pond is built, and puddle's with a core.ConcurrencyLimiter in
// place of its semaphore.
func TestSuites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it compiles and runs other test programs")
	}
	const ours = "github.com/sluice-go/sluice/docs/compat/"
	inBubble := regexp.MustCompile(`func Test(\w+)\(t \*testing\.T\) \{`)
	for name, suite := range map[string]struct {
		module, tests string            // the tests to copy; "": the whole module
		adapter       string            // a directory of testdata that comes into its place
		imports       []string          // that are replaced by ours
		fails         map[string]string // tests, and why
		passes        int               // at least, with subtests
	}{
		"errgroup": {module: "golang.org/x/sync", tests: "errgroup/errgroup_test.go", adapter: "errgroup", imports: []string{"golang.org/x/sync/errgroup"}, passes: 6},
		"pond":     {module: "github.com/alitto/pond/v2", adapter: "pond", imports: []string{"github.com/alitto/pond/v2"}, passes: 71},
		"puddle":   {module: "github.com/jackc/puddle/v2", adapter: "semaphore", imports: []string{"github.com/jackc/puddle/v2", "golang.org/x/sync/semaphore"}, passes: 40},
		"rate": {module: "golang.org/x/time", tests: "rate/rate_test.go", adapter: "rate", passes: 24, fails: map[string]string{
			"TestLimiterJumpBackwards": backwards,
			"TestReserveJumpBack":      backwards,
			"TestCancel0Tokens":        movesUp,
			"TestCancel1Token":         movesUp,
			"TestCancelMulti":          movesUp,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(newCopy(t), "compat")
			edit := func(text string) string {
				for _, i := range suite.imports {
					text = strings.ReplaceAll(text, i, ours+regexp.MustCompile(`\w+$`).FindString(strings.TrimSuffix(i, "/v2")))
				}
				if name == "rate" {
					text = inBubble.ReplaceAllString(text, "func Test$1(t *testing.T) { InBubble(t, test$1) }\n\nfunc test$1(t *testing.T) {")
				}
				return text
			}
			from := moduleDir(t, suite.module)
			if suite.tests == "" {
				copySource(t, from, filepath.Join(dir, name), edit)
			}
			copySource(t, filepath.Join("testdata", suite.adapter), filepath.Join(dir, suite.adapter), edit)
			if suite.tests != "" {
				copyFile(t, filepath.Join(from, suite.tests), filepath.Join(dir, suite.tests), edit)
			}
			failed, passed, out := testCopy(t, dir, "./"+name)
			require.Equal(t, slices.Sorted(maps.Keys(suite.fails)), failed, "%s", out)
			require.GreaterOrEqual(t, passed, suite.passes, "%s", out)
		})
	}
}

// newCopy returns a directory with a copy of this module's go.mod and an empty directory compat, for packages of others in which
// a part is replaced.
func newCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	copyFile(t, "../go.mod", filepath.Join(dir, "go.mod"), func(text string) string {
		return strings.ReplaceAll(text, " => ..", " => "+root)
	})
	copyFile(t, "../go.sum", filepath.Join(dir, "go.sum"), strings.Clone)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "compat"), 0o755))
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
func copySource(t *testing.T, from, to string, edit func(string) string) {
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
