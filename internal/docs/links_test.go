package docs_test

import (
	"os"
	"path"
	"path/filepath"
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
	for _, page := range files(t, ".md") {
		for _, match := range link.FindAllStringSubmatch(quoted.ReplaceAllString(prose(t, page), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			name, anchor, _ := strings.Cut(match[1], "#")
			to := page
			if name != "" {
				to = path.Join(path.Dir(page), name)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); !assert.NoError(t, err, "%s: %s", page, match[1]) || anchor == "" {
				continue
			}
			assert.Contains(t, anchors(t, to), anchor, "%s: %s", page, match[1])
		}
	}
	require.NotZero(t, links)
}

// prose returns a page without its blocks.
func prose(t *testing.T, page string) string {
	t.Helper()
	return fenced.ReplaceAllString(read(t, page), "")
}

// anchors returns the names under which the headings of a page are linked.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var names []string
	for _, match := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		name := notSlug.ReplaceAllString(strings.ToLower(strings.ReplaceAll(match[1], "`", "")), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}
