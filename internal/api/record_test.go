package api_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/api"
)

const (
	root   = "../.."
	record = root + "/api"
)

var update = flag.Bool("update", false, "record the exported API as it is")

// The go tool runs a cached test again when a folder that it walked has changed, so the result is never stale.
func TestRecord(t *testing.T) {
	folders, err := api.Folders(root)
	require.NoError(t, err)
	listings, err := api.List(t.Context(), root, folders)
	require.NoError(t, err)
	if *update {
		require.NoError(t, api.Write(record, listings))
	}
	diff, err := api.Diff(record, listings)
	require.NoError(t, err)
	if diff != "" {
		t.Errorf("the exported API is not as recorded in api/:\n%s"+
			"If the change is meant, record it with \"make api\", and say in CHANGELOG.md what it means for users.", diff)
	}
}

func TestListing(t *testing.T) {
	listings, err := api.List(t.Context(), root, []string{"./internal/api/testdata/sample"})
	require.NoError(t, err)
	require.Len(t, listings, 1)
	want, err := os.ReadFile("testdata/sample.txt")
	require.NoError(t, err)
	assert.Equal(t, string(want), listings[0].String())
}

// The module's root is documentation alone.
func TestAPackageWithoutExportsHasNoListing(t *testing.T) {
	listings, err := api.List(t.Context(), root, []string{"."})
	require.NoError(t, err)
	require.Empty(t, listings)
}

func TestListRefusesAPackageThatDoesNotCompile(t *testing.T) {
	_, err := api.List(t.Context(), root, []string{"./internal/api/testdata/broken"})
	assert.ErrorContains(t, err, "undefined: nowhere")
}

func TestFoldersLeavesOutWhatCannotBeImported(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{
		"core/core.go", "http/limit/limit.go", "onlytests/only_test.go", "internal/x/x.go", "examples/x/x.go",
		"bench/x.go", "tools/x.go", "core/testdata/x.go", ".hidden/x.go", "own/go.mod", "own/x.go", "own/deep/x.go",
	} {
		path := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	folders, err := api.Folders(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"./core", "./http/limit"}, folders)
}

func TestDiffTellsEachChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "api")
	was := []api.Listing{
		{Path: "core", Lines: []string{"func A()", "func B()"}},
		{Path: "gone", Lines: []string{"func G()"}},
	}
	is := []api.Listing{
		{Path: "core", Lines: []string{"func A()", "func B(int)"}},
		{Path: "deep/new", Lines: []string{"func N()"}},
	}

	diff, err := api.Diff(dir, was)
	require.NoError(t, err)
	assert.Contains(t, diff, "+ func A()", "nothing was recorded")

	require.NoError(t, api.Write(dir, was))
	diff, err = api.Diff(dir, was)
	require.NoError(t, err)
	assert.Empty(t, diff)

	diff, err = api.Diff(dir, is)
	require.NoError(t, err)
	for _, line := range []string{
		"core.txt\n\t- func B()\n\t+ func B(int)\n", "deep/new.txt\n", "+ func N()", "gone.txt\n", "- func G()",
	} {
		assert.Contains(t, diff, line)
	}
	assert.NotContains(t, diff, "func A()")

	require.NoError(t, api.Write(dir, is))
	diff, err = api.Diff(dir, is)
	require.NoError(t, err)
	assert.Empty(t, diff, "a package that is gone leaves no file")
}
