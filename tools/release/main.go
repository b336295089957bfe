// Command release makes a release of all modules of the repository at one version, and proves beforehand that users
// can build with it:
//
//	release check                     proves it, without a network
//	release tag [-n] VERSION          makes the commit and the tags; -n shows them and makes none
//
// Nothing is pushed. CONTRIBUTING.md has the steps.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: release check | release tag [-n] VERSION")

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dry := flags.Bool("n", false, "show what would be done")
	if len(args) == 0 || flags.Parse(args[1:]) != nil {
		return errUsage
	}
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	switch {
	case args[0] == "check" && flags.NArg() == 0 && !*dry:
		return check(ctx, checkOptions{dir: root, out: out})
	case args[0] == "tag" && flags.NArg() == 1:
		return tag(ctx, out, root, flags.Arg(0), *dry)
	default:
		return errUsage
	}
}
