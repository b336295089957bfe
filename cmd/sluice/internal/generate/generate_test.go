package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestManPages: each page says what sluice help says of the command and of each of its flags, in the same words.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run([]string{dir, "0.1.0", "1700000000"}))
	pages := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				visit(below)
			}
		}
		pages++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			holdAgainst(t, plain(string(text)), helpOf(t, c))
			if c.Flags().Lookup("limit") != nil {
				holdText(t, plain(string(text)), cli.Grammar)
			}
		})
	}
	visit(program.New())
	page, err := os.ReadFile(filepath.Join(dir, "sluice-proxy.yaml.5"))
	require.NoError(t, err)
	holdText(t, plain(string(page)), cli.Grammar)
	assert.Contains(t, string(page), `.TH "SLUICE-PROXY.YAML" "5" "Nov 2023" "sluice 0.1.0" "File Formats"`)
	found, err := filepath.Glob(filepath.Join(dir, "*.1"))
	require.NoError(t, err)
	assert.Len(t, found, pages)
}

// holdAgainst finds each paragraph of the help in the page, and each flag. Below a command the help lists others, which have
// pages of their own.
func holdAgainst(t *testing.T, page, help string) {
	t.Helper()
	flags := 0
	for paragraph := range strings.SplitSeq(help, "\n\n") {
		title, rest, _ := strings.Cut(paragraph, "\n")
		switch title {
		case "Usage:":
			use, _, _ := strings.Cut(rest, "\n")
			assert.Contains(t, page, words("SYNOPSIS "+use))
		case "Examples:":
			assert.Contains(t, page, words("EXAMPLE "+rest))
		case "Available Commands:":
			for line := range strings.Lines(rest) {
				if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "help" {
					assert.Regexp(t, `SEE ALSO .*sluice(-\w+)?-`+name+`\(1\)`, page)
				}
			}
		case "Flags:":
			for _, m := range flagLine.FindAllStringSubmatch(rest, -1) {
				flags++
				assert.Contains(t, page, words(m[1]+valueOf(m[2])+" "+m[3]))
			}
			assert.Equal(t, strings.Count(rest, "\n  "), flags-1)
		default:
			if !strings.HasPrefix(title, `Use "`) {
				assert.Contains(t, page, words(paragraph))
			}
		}
	}
	assert.NotZero(t, flags)
}

// holdText finds each paragraph of a text in the page.
func holdText(t *testing.T, page, text string) {
	t.Helper()
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		assert.Contains(t, page, words(paragraph))
	}
}

var flagLine = regexp.MustCompile(`(?m)^ +((?:-\w, )?--[\w-]+)(?: (\S+))? {2,}(.*)$`)

func valueOf(name string) string {
	if name == "" {
		return ""
	}
	return "=" + name
}

// helpOf returns what sluice help prints.
func helpOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	root := c.Root()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append([]string{"help"}, strings.Fields(c.CommandPath())[1:]...))
	require.NoError(t, root.Execute())
	return out.String()
}

// plain returns the words of a man page.
func plain(page string) string {
	page = regexp.MustCompile(`(?m)^\..*$`).ReplaceAllStringFunc(page, func(line string) string {
		title, ok := strings.CutPrefix(line, ".SH ")
		if !ok {
			return ""
		}
		return title
	})
	return words(strings.NewReplacer(`\fB`, "", `\fP`, "", `\&`, "", `\-`, "-", `\(aq`, "'", `\\`, `\`).Replace(page))
}

// words returns the text with a space between words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestCompletions: each shell gets a file.
func TestCompletions(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run([]string{dir, "0.1.0", "1700000000"}))
	for name, has := range map[string]string{
		"sluice.bash": "complete -o default -F __start_sluice sluice", "_sluice": "#compdef sluice", "sluice.fish": "complete -c sluice",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Contains(t, string(text), has)
	}
}

func TestUsage(t *testing.T) {
	require.ErrorContains(t, run(nil), "usage: generate DIR VERSION TIME")
	require.ErrorContains(t, run([]string{t.TempDir(), "0.1.0", "today"}), "invalid syntax")
}

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
