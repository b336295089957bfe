package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write proxy.yaml.md")

// TestReference: sluice-proxy.yaml(5) is docs/proxy-reference.md. With -update the test makes proxy.yaml.md from it.
func TestReference(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/proxy-reference.md")
	require.NoError(t, err)
	want := manual(string(page))
	if *update {
		require.NoError(t, os.WriteFile("proxy.yaml.md", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, proxyFile, "go test ./internal/generate -run TestReference -update makes it")
}

var (
	sectionLink = regexp.MustCompile(`\[([^]]+)\]\(#[^)]*\)`)
	pageLink    = regexp.MustCompile(`\[([^]]+)\]\([^)]*\)`)
	keyItem     = regexp.MustCompile(`^- ((?:` + "`[^`]+`" + `(?:, )?)+): (.)(.*)$`)
)

// manual returns the page as the text of a man page: sections in capitals, the keys as a list of definitions, and links without
// their addresses.
func manual(page string) string {
	_, page, _ = strings.Cut(page, "\n## The file\n")
	var b strings.Builder
	b.WriteString("# NAME\n\nsluice-proxy.yaml - configuration file of sluice proxy\n\n# DESCRIPTION\n")
	keys := false
	for line := range strings.Lines(page) {
		line = sectionLink.ReplaceAllStringFunc(line, func(link string) string {
			return strings.ToUpper(sectionLink.FindStringSubmatch(link)[1])
		})
		line = pageLink.ReplaceAllString(line, "$1")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			keys = strings.Contains(strings.ToLower(title), "keys") && !strings.HasPrefix(title, "Values")
			line = "# " + strings.ToUpper(title)
		}
		if m := keyItem.FindStringSubmatch(strings.TrimSuffix(line, "\n")); keys && m != nil {
			line = "\n" + strings.ReplaceAll(m[1], "`", "**") + "\n: " + strings.ToUpper(m[2]) + m[3] + "\n"
		} else if keys {
			line = strings.TrimPrefix(line, "  ")
		}
		b.WriteString(line)
	}
	b.WriteString("\n# SEE ALSO\n\n**sluice-proxy(1)**, **sluice-simulate(1)**; https://github.com/sluice-go/sluice/blob/main/docs/proxy.md\n")
	return b.String()
}

// TestKeys: the reference has each key that the file may have, and no other.
func TestKeys(t *testing.T) {
	var has, want []string
	for _, m := range regexp.MustCompile(`(?m)^((?:\*\*[a-z-]+\*\*(?:, )?)+)$`).FindAllString(proxyFile, -1) {
		has = append(has, strings.Split(strings.ReplaceAll(m, "*", ""), ", ")...)
	}
	for _, file := range []string{"read.go", "policy.go"} {
		text, err := os.ReadFile("../config/" + file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^\t\t\{"([a-z-]+)", `).FindAllStringSubmatch(string(text), -1) {
			if m[1] != "redis-budget" { // the old name of redis-timeout
				want = append(want, m[1])
			}
		}
	}
	require.ElementsMatch(t, want, has)
}
