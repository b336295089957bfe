package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

//go:embed proxy.yaml.md
var proxyFile string

// manPages writes the man page of each command, sluice-run.1 for example, and that of the proxy's file. It changes root.
func manPages(root *cobra.Command, dir, version string, at time.Time) error {
	prepare(root)
	title := fmt.Sprintf("%% \"SLUICE-PROXY.YAML\" \"5\" %q %q \"File Formats\"\n\n", at.Format("Jan 2006"), "sluice "+version)
	if err := os.WriteFile(filepath.Join(dir, "sluice-proxy.yaml.5"), md2man.Render([]byte(title+proxyFile+"\n# LIMITS\n\n"+markdown(cli.Grammar))), 0o600); err != nil {
		return err
	}
	err := doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &at, Source: "sluice " + version, Manual: "User Commands",
	}, dir)
	if err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	for _, page := range pages {
		text, failed := os.ReadFile(page)
		// A flag that takes no value is shown with its default.
		err = errors.Join(err, failed, os.WriteFile(page, bytes.ReplaceAll(text, []byte("[=false]"), nil), 0o600))
	}
	return err
}

// prepare turns the help of c and of the commands below it into the Markdown that package doc takes it for.
func prepare(c *cobra.Command) {
	for _, below := range c.Commands() {
		prepare(below)
	}
	c.InitDefaultHelpFlag()
	c.DisableAutoGenTag = true
	use := c.UseLine()
	if c.HasParent() {
		use = strings.TrimPrefix(use, c.Parent().CommandPath()+" ")
	}
	c.Use, c.DisableFlagsInUseLine = escape(use), true
	c.Short, c.Long = escape(c.Short), markdown(c.Long)
	if c.Flags().Lookup("limit") != nil {
		c.Long += "\n\n# LIMITS\n\n" + markdown(cli.Grammar)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		name, usage := option(f)
		f.Usage = escape(usage)
		if name != "" {
			f.Value, f.DefValue = placeholder{f.Value}, escape(name)
		}
	})
}

// option returns the name of the flag's value and the explanation, as the help has them; "" if it takes no value.
func option(f *pflag.Flag) (name, usage string) {
	name, usage = pflag.UnquoteUsage(f)
	var alone pflag.FlagSet
	alone.AddFlag(f)
	_, value, _ := strings.Cut(alone.FlagUsages(), usage) // the default, in parentheses
	return name, usage + strings.TrimRight(value, "\n")
}

// placeholder is a value that a page shows by its name, without quotation marks.
type placeholder struct{ pflag.Value }

func (placeholder) Type() string { return "" }

// markdown returns the help text as Markdown: indented lines are shown as they are.
func markdown(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		if is := indented(line); is != code && strings.TrimSpace(line) != "" {
			b.WriteString("\n```\n")
			code = is
		}
		if code {
			b.WriteString(line)
		} else {
			b.WriteString(escape(line))
		}
	}
	if code {
		b.WriteString("\n```\n")
	}
	return b.String()
}

func indented(line string) bool {
	return strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
}

// escape returns the text as Markdown that shows it.
func escape(text string) string { return special.ReplaceAllString(text, `\$0`) }

var special = regexp.MustCompile("[\\\\`*_{}\\[\\]()#+.!|<>~&:-]")
