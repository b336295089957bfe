package cli

import (
	"regexp"
	"strings"
)

var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote quotes a word if a shell would change it, as GNU parallel does.
func Quote(word string) string {
	if harmless.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}
