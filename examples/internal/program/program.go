// Package program is the frame of all example programs, so that they behave the same way:
// -h prints the usage on stdout, bad usage ends with status 2, a failure with 1,
// Ctrl-C with 130, and an error is printed once.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit statuses.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as in shells
)

// Body runs the program after its flags were read. Ctrl-C and SIGTERM cancel ctx.
// Its error is printed. An error made by [Usage] reports the user's mistake.
type Body func(ctx context.Context, args []string) error

// Streams are the program's stdin, stdout and stderr.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a program and exits with its status. text is the help that is printed above the flags.
// Its first word is the program's name. define declares the flags and returns the body.
func Main(text string, define func(flags *flag.FlagSet, s Streams) Body) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := Run(ctx, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr}, text, define)
	stop()
	os.Exit(status)
}

// Run is Main with explicit arguments and streams, for tests. It returns the status.
func Run(ctx context.Context, args []string, s Streams, text string, define func(flags *flag.FlagSet, s Streams) Body) int {
	name := strings.ToLower(strings.Fields(text)[0])
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	body := define(flags, s)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(s.Out, "%s\n\n", strings.TrimSpace(text))
		flags.SetOutput(s.Out)
		flags.PrintDefaults()
		return 0
	case err != nil:
		err = Usage("%w", err)
	default:
		if err = body(ctx, flags.Args()); err == nil {
			return 0
		}
	}
	return s.tell(ctx, name, err)
}

// tell prints an error and returns the exit status for it.
func (s Streams) tell(ctx context.Context, name string, err error) int {
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(s.Err, "%s: %v; see %s -h\n", name, err, name)
		return exitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	}
	_, _ = fmt.Fprintf(s.Err, "%s: %v\n", name, err)
	return exitFailure
}

// Usage returns an error about wrong usage, formatted as by [fmt.Errorf].
func Usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// NoArguments returns a usage error if there are arguments. An argument that looks like a flag stood
// behind one that ended the flags.
func NoArguments(args []string) error {
	for _, a := range args {
		if strings.HasPrefix(a, "-") && len(a) > 1 {
			return Usage("flags come before %q", args[0])
		}
	}
	if len(args) > 0 {
		return Usage("unexpected argument %q", args[0])
	}
	return nil
}

// Arguments returns a usage error if a flag stands behind the arguments.
func Arguments(args []string) error {
	for i, a := range args {
		if i > 0 && strings.HasPrefix(a, "-") && len(a) > 1 {
			return Usage("flags come before %q: write %s first", args[0], a)
		}
	}
	return nil
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
