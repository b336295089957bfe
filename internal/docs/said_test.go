package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// said are the rules that more than one text states. Each text states them in the same words, but for the names of packages and the
// marks of code.
var said = map[string][]string{
	"If the permits are not available, Acquire waits in the limiter's queue. QueueLimit is the most permits that may wait there. " +
		"The default, 0, means that Acquire rejects such a request instead.": {
		"README.md", "core/doc.go", "docs/choose.md", "docs/migrate/README.md", "docs/tour.md",
	},
	"PerSecond, Every, Rate and ioreader.PerSecond set an unbounded queue": {
		"core/doc.go", "docs/choose.md", "docs/migrate/README.md", "docs/tour.md",
	},
	"The lease of a chain of two takes more than 400 bytes": {"channel/doc.go", "pipe/doc.go"},
}

var markup = regexp.MustCompile("`|\\*\\*|\\[([A-Z]\\w*)\\]|\\bcore\\.|(?m:^ *//)")

// TestSaidOnce finds a rule that one text states in other words than another.
func TestSaidOnce(t *testing.T) {
	texts := written(t)
	plain := func(text string) string {
		return strings.ToLower(strings.Join(strings.Fields(markup.ReplaceAllString(text, "$1")), " "))
	}
	for sentence, places := range said {
		for _, place := range places {
			assert.Contains(t, plain(texts[place]), plain(sentence), place)
		}
	}
}
