package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?\n *```$")
	quoted  = regexp.MustCompile("`[^`\n]*`")
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Every link within the repository leads to a file, and to a heading if it names one.
func TestLinks(t *testing.T) {
	links := 0
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(page string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case path.Ext(page) != ".md":
			return nil
		}
		for _, match := range link.FindAllStringSubmatch(quoted.ReplaceAllString(prose(t, files, page), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(match[1], "#")
			to := page
			if name != "" {
				to = path.Join(path.Dir(page), name)
			}
			if _, err := fs.Stat(files, to); !assert.NoError(t, err, "%s: %s", page, match[1]) || anchor == "" {
				continue
			}
			assert.Contains(t, anchors(t, files, to), anchor, "%s: %s", page, match[1])
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, links)
}

// prose returns a page without its blocks.
func prose(t *testing.T, files fs.FS, page string) string {
	t.Helper()
	text, err := fs.ReadFile(files, page)
	require.NoError(t, err)
	return fenced.ReplaceAllString(string(text), "")
}

// anchors returns the names under which the headings of a page are linked.
func anchors(t *testing.T, files fs.FS, page string) []string {
	t.Helper()
	var names []string
	for _, match := range heading.FindAllStringSubmatch(prose(t, files, page), -1) {
		name := notSlug.ReplaceAllString(strings.ToLower(strings.ReplaceAll(match[1], "`", "")), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
