package cli

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs the program of [New] and returns its exit status.
func Execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	out := new(output)
	root.SetOut(out)
	ran, err := root.ExecuteC()
	if err == nil {
		err = out.err
	}
	if ran == root && err != nil && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		err = unknown(root, args[0]) // cobra reports the flags of the unknown command
	}
	name := ""
	if ran != nil && ran.HasParent() && ran.Name() != "help" {
		name = strings.TrimPrefix(ran.CommandPath(), "sluice ")
	}
	return Report(os.Stderr, name, err)
}

// output is stdout. It keeps the error of a write, because help ignores it.
type output struct{ err error }

func (o *output) Write(p []byte) (int, error) {
	n, err := os.Stdout.Write(p)
	if err != nil {
		o.err = err
	}
	return n, err
}

// New returns the program as a command, with its commands below it.
func New(commands ...*cobra.Command) *cobra.Command {
	var printVersion bool
	var root *cobra.Command
	root = &cobra.Command{
		Use:   "sluice",
		Short: "Rate and concurrency limits for the command line",
		Long: `Sluice limits the throughput of pipes, the rate at which commands start, and the requests
that reach a server.

A SPEC is a limit in one line of text: 100/s, 8MiB/s, "bucket 5000/h burst 100",
"sliding 100/1m", "concurrency 10", or several with commas. "sluice help limits" explains
it. A TIME is 250ms, 1h30m, or a plain number of seconds.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(root, args[0])
			}
			return nil
		},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return NotEmpty(c.Flags()) },
		RunE: func(c *cobra.Command, _ []string) error {
			if printVersion {
				return writeVersion(c)
			}
			for _, below := range c.Commands() {
				if below.IsAvailableCommand() {
					c.PrintErrf("  %-12s%s\n", below.Name(), below.Short)
				}
			}
			return Usage("no command")
		},
	}
	// A Version of cobra's is printed by a template, for which the linker would keep every method of every package.
	root.Flags().BoolVarP(&printVersion, "version", "v", false, "print the version")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return FlagError(c.Flags(), err) })
	root.AddCommand(append(commands, versionCommand())...)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = func(c *cobra.Command, args []string) error {
				if len(args) == 0 {
					return Usage("no shell; use bash, zsh, fish or powershell")
				}
				return Usage("unknown shell %q; use bash, zsh, fish or powershell", args[0])
			}
			c.Args = cobra.ArbitraryArgs
			for _, shell := range c.Commands() {
				shell.Args = NoArguments
			}
		}
	}
	return root
}

// unknown is the error for a command that does not exist. It suggests similar names.
func unknown(root *cobra.Command, name string) error {
	return Usage("unknown command %q%s", name, DidYouMean(name, names(root)))
}

// names returns the names of the commands.
func names(root *cobra.Command) (all []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return all
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", DisableFlagsInUseLine: true,
		Args: NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return writeVersion(c) },
	}
}

func writeVersion(c *cobra.Command) error {
	_, err := fmt.Fprintln(c.OutOrStdout(), "sluice", version())
	return err
}

const topic = "limits" // which help explains beside the commands

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND | limits]", Short: "Explain a command, with examples, or how limits are written", DisableFlagsInUseLine: true,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(names(root), topic), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains([]string{topic, "limit", "spec"}, strings.ToLower(args[0])) {
				_, err := io.WriteString(c.OutOrStdout(), Grammar)
				return err
			}
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknown(root, strings.Join(args, " "))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// version returns the version, the revision and the Go version of the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v + " " + info.GoVersion
}
