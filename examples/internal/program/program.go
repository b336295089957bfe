// Package program is the frame that all example programs share, so that they answer alike:
// -h writes the usage to standard output, bad usage ends with status 2, a failure with 1,
// ctrl-C with 130, and an error is printed once.
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
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// Body is what a program does once its flags are read. ctx ends with ctrl-C and with
// SIGTERM. An error is printed; one made by [Usage] is the user's mistake.
type Body func(ctx context.Context, args []string) error

// Streams are what a program reads from and writes to.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a program and exits with its status. text is printed above the flags when the
// user asks for help; its first word is the program's name. define declares the flags
// and returns the body.
func Main(text string, define func(flags *flag.FlagSet, s Streams) Body) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := Run(ctx, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr}, text, define)
	stop()
	os.Exit(status)
}

// Run is Main with everything named, for tests; it returns the status.
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

// tell writes an error to a person and returns the status that goes with it.
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

// Usage returns an error for what the user wrote wrong, as [fmt.Errorf] makes it.
func Usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// NoArguments is the mistake of naming something where nothing is wanted: nil if there are
// no arguments. An argument that looks like a flag stood behind one that ended the flags.
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

// Arguments is the mistake of writing flags behind the arguments.
func Arguments(args []string) error {
	for i, a := range args {
		if i > 0 && strings.HasPrefix(a, "-") && len(a) > 1 {
			return Usage("flags come before %q: write %s first", args[0], a)
		}
	}
	return nil
}

// IsTerminal reports whether a person sees what is written to w.
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
