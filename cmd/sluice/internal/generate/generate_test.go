package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/program"
)

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
