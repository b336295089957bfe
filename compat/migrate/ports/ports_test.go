package ports_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page says how many lines the programs have.
func TestLines(t *testing.T) {
	page, err := os.ReadFile("../../../docs/migrate/ports.md")
	require.NoError(t, err)
	for _, program := range []string{"crawler", "api", "upload"} {
		want := fmt.Sprintf("| %d | %d |", lines(t, program+"/before/before.go"), lines(t, program+"/after/after.go"))
		_, row, _ := strings.Cut(string(page), "ports/"+program+"/before/before.go")
		row, _, _ = strings.Cut(row, "\n")
		require.True(t, strings.HasSuffix(row, want), "%s: %s, want %s", program, row, want)
	}
}

// lines counts the lines of a program that are neither comment nor blank nor an import.
func lines(t *testing.T, file string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, _ := strings.Cut(string(text), "\nimport (")
	_, body, _ := strings.Cut(rest, "\n)\n")
	for line := range strings.Lines(head + "\n" + body) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
