package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/docs"
	"github.com/sluice-go/sluice/spec"
)

const root = "../.."

var update = flag.Bool("update", false, "write the blocks of docs/")

// files returns the paths of the files with an ending, without those in hidden directories, in testdata and in directories of other names.
func files(t *testing.T, ending string, without ...string) (found []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		base := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (len(base) > 1 && base[0] == '.' || base == "testdata" || slices.Contains(without, base)):
			return fs.SkipDir
		case strings.HasSuffix(name, ending):
			found = append(found, name)
		}
		return nil
	}))
	require.NotEmpty(t, found)
	return found
}

// read returns the text of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(text)
}

// library returns the files of the packages that users import, without their tests, by path.
func library(t *testing.T) map[string]*ast.File {
	t.Helper()
	all := make(map[string]*ast.File)
	for _, name := range files(t, ".go", "internal", "examples", "bench", "docs", "cmd", "tools") {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), name, read(t, name), parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			all[name] = file
		}
	}
	return all
}

// Every Go block of docs/ is a copy of code that compiles. With -update it becomes one.
func TestBlocks(t *testing.T) {
	pages, err := docs.Pages(root)
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		if *update {
			require.NoError(t, docs.Update(root, page))
		}
		blocks, err := docs.Blocks(root, page)
		require.NoError(t, err)
		for _, b := range blocks {
			t.Run(fmt.Sprintf("%s:%d", b.Page, b.Line), func(t *testing.T) { check(t, b) })
		}
	}
}

func check(t *testing.T, b docs.Block) {
	t.Helper()
	switch {
	case b.Source != "":
		want, err := docs.Excerpt(root, b.Source)
		require.NoError(t, err)
		require.Equal(t, want, b.Text, "the block is not what %s has", b.Source)
	case b.Language == "go" && b.Page != tour:
		require.Fail(t, "a Go block without <!-- file: … --> above it")
	case b.Language == "spec":
		for line := range strings.Lines(b.Text) {
			_, err := spec.Parse(strings.TrimSpace(line))
			require.NoError(t, err)
		}
	}
}

func TestBlocksOfAPage(t *testing.T) {
	page := "text\n\n<!-- file: a.go#f -->\n\n```go\nx := 1\n\n```\n\n```\nplain\n```\n"
	dir := t.TempDir()
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "page.md"), []byte(text), 0o600))
	}
	write(page)
	blocks, err := docs.Blocks(dir, "page.md")
	require.NoError(t, err)
	require.Equal(t, []docs.Block{
		{Page: "page.md", Line: 5, Language: "go", Source: "a.go#f", Text: "x := 1\n\n"},
		{Page: "page.md", Line: 10, Text: "plain\n"},
	}, blocks)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nfunc f() {}\n"), 0o600))
	require.NoError(t, docs.Update(dir, "page.md"))
	updated, err := os.ReadFile(filepath.Join(dir, "page.md"))
	require.NoError(t, err)
	require.Equal(t, strings.Replace(page, "x := 1\n\n", "func f() {}\n", 1), string(updated))

	for _, faulty := range []string{"```go\n", "<!-- file: a.go -->\n", "<!-- file: a.go -->\ntext\n```go\n```\n"} {
		write(faulty)
		_, err := docs.Blocks(dir, "page.md")
		require.Error(t, err, faulty)
	}
}
