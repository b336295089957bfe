package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dangling is how many comments behind a line of code may start with a word that needs the name before it: "of the lease". Lower it
// when you have rewritten one; a comment such as "lease of the item" can be read alone.
const dangling = 23

var (
	behind     = regexp.MustCompile(`^(.*\S)\s+// (.*)$`)
	unfinished = regexp.MustCompile(`^(of|that|as|in|by|from)\b|^nil:`)
)

// TestFieldComments: the number of comments that do not stand alone only falls.
func TestFieldComments(t *testing.T) {
	var found []string
	for _, name := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for line := range strings.Lines(read(t, name)) {
			m := behind.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil || strings.HasPrefix(strings.TrimSpace(line), "//") || strings.Count(m[1], `"`)%2 != 0 || strings.Count(m[1], "`")%2 != 0 {
				continue
			}
			if !strings.Contains(m[1], "//nolint") && unfinished.MatchString(m[2]) {
				found = append(found, name+": "+strings.TrimSpace(line))
			}
		}
	}
	require.LessOrEqual(t, len(found), dangling, "comments that need the name before them:\n%s", strings.Join(found, "\n"))
}
