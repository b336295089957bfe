package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dangling is how many comments behind a line of code may start with a word that needs the name before it: "of the lease". Lower it
// when you have rewritten one; a comment such as "lease of the item" can be read alone.
const dangling = 35

var (
	behind     = regexp.MustCompile(`^(.*\S)\s+// (.*)$`)
	unfinished = regexp.MustCompile(`^(of|that|as|in|by|from)\b|^nil:`)
)

// TestFieldComments: the number of comments that do not stand alone only falls.
func TestFieldComments(t *testing.T) {
	var found []string
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(os.DirFS(root), name)
		for line := range strings.Lines(string(text)) {
			m := behind.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil || strings.HasPrefix(strings.TrimSpace(line), "//") || strings.Count(m[1], `"`)%2 != 0 || strings.Count(m[1], "`")%2 != 0 {
				continue
			}
			if !strings.Contains(m[1], "//nolint") && unfinished.MatchString(m[2]) {
				found = append(found, name+": "+strings.TrimSpace(line))
			}
		}
		return err
	}))
	require.LessOrEqual(t, len(found), dangling, "comments that need the name before them:\n%s", strings.Join(found, "\n"))
}
