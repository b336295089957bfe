package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// repositoryOf makes a git repository of testdata/repository.txtar: a library, an adapter, a program, and a module that is
// not released. The tests of the library need the adapter, as redislimit's do.
func repositoryOf(t *testing.T) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, who := range []string{"GIT_AUTHOR", "GIT_COMMITTER"} {
		t.Setenv(who+"_NAME", "a test")
		t.Setenv(who+"_EMAIL", "test@example.com")
	}
	files, err := txtar.ParseFile("testdata/repository.txtar")
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range files.Files {
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	gits(t, dir, "init", "--quiet")
	commits(t, dir)
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o750))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

func gits(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(t.Context(), dir, args...)
	require.NoError(t, err)
	return out
}

// commits makes a commit of everything, and has the gate pass.
func commits(t *testing.T, dir string) {
	t.Helper()
	gits(t, dir, "add", "--all")
	gits(t, dir, "commit", "--quiet", "--allow-empty", "--message", "work")
	write(t, filepath.Join(dir, ".git", "gate-passed"), gits(t, dir, "rev-parse", "HEAD^{tree}"))
}

func TestCheck(t *testing.T) {
	set := filepath.Join(t.TempDir(), "env") // as go env -w does
	write(t, set, "GOPRIVATE=example.com\nGOFLAGS=-mod=vendor\n")
	t.Setenv("GOENV", set)
	var out bytes.Buffer
	require.NoError(t, check(t.Context(), &out, repositoryOf(t), nil))
	for _, says := range []string{
		"bytes  github.com/example/library\n", "bytes  github.com/example/library/adapter\n",
		"ok  go install github.com/example/library/cmd/tool@v0.999.0: tool v0.999.0\n",
		"ok  a program with 3 modules, github.com/example/library first: 2 packages\n",
		"ok  go vet of 2 packages, with their examples\n",
		"ok  the commands of docs/install.md\n",
		"ok  each module, in a checkout of its tag\n",
	} {
		require.Contains(t, out.String(), says)
	}
}

// What check is for: each of these leaves users without a build.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	for name, broken := range map[string]struct{ file, old, text, says string }{
		"a require is left at v0.0.0":      {"adapter/go.mod", "library v0.999.0", "library v0.0.0", "v0.0.0"},
		"a replace is left":                {"cmd/tool/go.mod", "go 1.26.0", "go 1.26.0\n\nreplace github.com/example/library => ../..", "replace directives"},
		"a sum is wrong":                   {"adapter/go.sum", "library v0.999.0 h1:", "library v0.999.0 h1:AAAA", "checksum"},
		"the page names an unknown module": {"docs/install.md", "library/adapter@latest", "library/adaptor@latest", "github.com/example/library/adaptor@latest"},
		"the page says nothing":            {"docs/install.md", installMark, "", "docs/install.md has no shell block"},
		"an example does not compile":      {"example_test.go", "library.Hello", "library.Bye", "Bye"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(t.Context(), io.Discard, repositoryOf(t), func(r *repository) {
				name := filepath.Join(r.dir, broken.file)
				was, err := os.ReadFile(name)
				require.NoError(t, err)
				require.Contains(t, string(was), broken.old)
				write(t, name, strings.ReplaceAll(string(was), broken.old, broken.text))
			})
			require.ErrorContains(t, err, broken.says)
		})
	}
}

func TestCheckFindsALargeFile(t *testing.T) {
	dir := repositoryOf(t)
	large := strings.Repeat("x", mostOfFile+1)
	write(t, filepath.Join(dir, "cmd", "tool", "page.html"), large)
	commits(t, dir)
	require.NoError(t, check(t.Context(), io.Discard, dir, nil), "a program cannot be imported")
	write(t, filepath.Join(dir, "plot.svg"), large)
	commits(t, dir)
	err := check(t.Context(), io.Discard, dir, nil)
	require.ErrorContains(t, err, "plot.svg has 1048577 bytes")
}

// A tag's commit has no replaces and names its siblings; the branch stays as it is.
func TestTag(t *testing.T) {
	dir := repositoryOf(t)
	head := gits(t, dir, "rev-parse", "HEAD")
	var out bytes.Buffer
	require.NoError(t, tag(t.Context(), &out, dir, "v0.1.0", true))
	require.Contains(t, out.String(), "-replace github.com/example/library => ..")
	require.Contains(t, out.String(), "tags: v0.1.0 adapter/v0.1.0 cmd/tool/v0.1.0\n")
	require.Empty(t, gits(t, dir, "tag"))

	out.Reset()
	require.NoError(t, tag(t.Context(), &out, dir, "v0.1.0", false))
	require.Contains(t, out.String(), "git push origin v0.1.0 adapter/v0.1.0 cmd/tool/v0.1.0\n")
	require.Equal(t, head, gits(t, dir, "rev-parse", "HEAD"))
	require.Equal(t, head, gits(t, dir, "rev-parse", "adapter/v0.1.0^{commit}~"))
	mod := gits(t, dir, "show", "adapter/v0.1.0:adapter/go.mod")
	require.Contains(t, mod, "require github.com/example/library v0.1.0")
	require.NotContains(t, mod, "replace")
	require.Contains(t, gits(t, dir, "show", "HEAD:adapter/go.mod"), "replace github.com/example/library => ..")
	require.Empty(t, gits(t, dir, "status", "--porcelain"))
}

func TestTagRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		change  func(t *testing.T, dir string)
		says    string
	}{
		"a version that is none":      {"0.1.0", nil, `"0.1.0" is no version`},
		"a version that is short":     {"v0.1", nil, `"v0.1" is no version`},
		"a major above 1":             {"v2.0.0", nil, "module's path has its major version"},
		"a version without changes":   {"v0.3.0", nil, "CHANGELOG.md has no ## [0.3.0]"},
		"a version that is not after": {"v0.1.0", func(t *testing.T, dir string) { t.Helper(); gits(t, dir, "tag", "adapter/v0.2.0") }, "v0.1.0 is not after adapter/v0.2.0"},
		"a checkout with changes":     {"v0.1.0", func(t *testing.T, dir string) { t.Helper(); write(t, filepath.Join(dir, "new"), "") }, "?? new"},
		"a gate that has not passed": {"v0.1.0", func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, ".git", "gate-passed")))
		}, "the gate has not passed"},
		"an unknown module": {"v0.1.0", func(t *testing.T, dir string) {
			t.Helper()
			write(t, filepath.Join(dir, "more", "go.mod"), "module github.com/example/library/more\n")
		}, "tools/release/modules.yaml does not name github.com/example/library/more"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repositoryOf(t)
			if c.change != nil {
				c.change(t, dir)
			}
			tags := gits(t, dir, "tag")
			require.ErrorContains(t, tag(t.Context(), io.Discard, dir, c.version, false), c.says)
			require.Equal(t, tags, gits(t, dir, "tag"))
		})
	}
}

// A hook's environment names the repository of the hook; git works in the directory that it is told all the same.
func TestInAHook(t *testing.T) {
	dir := repositoryOf(t)
	hook := filepath.Join(t.TempDir(), "hook")
	t.Setenv("GIT_DIR", hook)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(hook, "index"))
	t.Chdir(dir)
	require.NoError(t, run(t.Context(), []string{"tag", "v0.1.0"}, io.Discard))
	require.NoDirExists(t, hook)
	require.Contains(t, gits(t, dir, "tag"), "cmd/tool/v0.1.0")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"tag"}, {"check", "v0.1.0"}, {"tag", "-x", "v0.1.0"}, {"publish", "v0.1.0", "dir"}} {
		require.ErrorIs(t, run(t.Context(), args, io.Discard), errUsage)
	}
}
