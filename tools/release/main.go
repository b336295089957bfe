// Command release makes a release of all modules of the repository at one version, and proves beforehand that users
// can build with it:
//
//	release check                     proves it for the last commit
//	release tag [-n] VERSION          makes the commit and the tags; -n shows them and makes none
//
// Nothing is pushed. CONTRIBUTING.md has the steps.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
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
	// A hook's environment names the repository of the hook, which need not be the one that a command runs in.
	for _, name := range []string{"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	switch {
	case args[0] == "check" && flags.NArg() == 0 && !*dry:
		return check(ctx, out, root, nil)
	case args[0] == "tag" && flags.NArg() == 1:
		return tag(ctx, out, root, flags.Arg(0), *dry)
	default:
		return errUsage
	}
}

// git runs git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, os.Environ(), "git", args...)
}

// command runs a program in dir and returns its stdout. Its error says what the program wrote.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, env, time.Second
	var out, both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &both
	if err := cmd.Run(); err != nil {
		both.Write(out.Bytes())
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(both.Bytes()))
	}
	return strings.TrimSpace(out.String()), nil
}
