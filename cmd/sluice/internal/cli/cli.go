// Package cli is the program sluice without its commands, and what they share: how errors become exit statuses, kinds of flags,
// and what is shown on a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Exit statuses.
const (
	Failure    = 1
	BadUsage   = 2
	CannotRun  = 126 // as shells have it, as those below
	NotFound   = 127
	BrokenPipe = 141 // 128 + SIGPIPE
)

// LookPath is [exec.LookPath] that accepts a program in the working directory if the user's PATH contains that.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	return path, err
}

// StatusOfStart returns the exit status for a program that could not be started.
func StatusOfStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return NotFound
	}
	return CannotRun
}

// StatusOf returns the exit status of a program that a signal has ended, as shells have it.
func StatusOf(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return Failure
}

// Usage returns an error in what the user wrote. Its status is 2, and Report adds where to read on.
func Usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// NoArguments is for commands that take only flags.
func NoArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.Flags().Lookup("config") != nil:
		return Usage("unexpected argument %q; write --config in front of a file", args[0])
	}
	return Usage("unexpected argument %q", args[0])
}

// Exit returns an error that ends the program with a status. With a nil err, Report prints nothing.
func Exit(status int, err error) error { return &exitError{err, status} }

type exitError struct {
	err    error
	status int
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "exit status " + strconv.Itoa(e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Report prints err, unless it is silent, and returns the exit status. command is the name of the command that failed, "" for
// the program itself.
func Report(w io.Writer, command string, err error) int {
	name, help := "sluice", "sluice help"
	if command != "" {
		name, help = name+" "+command, help+" "+command
	}
	var usage *usageError
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(w, "%s: %v; see %s\n", name, err, help)
		return BadUsage
	case errors.As(err, &exit):
		if exit.err != nil {
			_, _ = fmt.Fprintf(w, "%s: %v\n", name, exit.err)
		}
		return exit.status
	}
	SayAll(func(format string, args ...any) { _, _ = fmt.Fprintf(w, name+": "+format+"\n", args...) }, err)
	return Failure
}

// Notify is [signal.Notify] without the signals that the program was started to ignore: those of nohup, and Ctrl-C for what
// a shell's script runs in the background.
func Notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// NotEmpty returns an error if a flag has an empty value. Otherwise a shell variable that is not set would mean, for example, that
// there is no limit. Only the name that throttle shows may be empty.
func NotEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" && f.Name != "name" {
			err = Usage("--%s is empty", f.Name)
		}
	})
	return err
}

// Listen listens on the address of a flag, or of a key of a config file. If it is not an address, the error names the flag.
func Listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if _, port, split := net.SplitHostPort(address); err != nil && (split != nil || !isPort(ctx, port)) {
		return nil, fmt.Errorf("%w; %s requires an address such as 127.0.0.1:8080", err, flag)
	}
	return l, err
}

func isPort(ctx context.Context, port string) bool {
	_, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return err == nil
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Open opens a file, or stdin if the name is -.
func Open(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// CheckStdout returns an error if stdout cannot be written. hint says what to do. On Unix, Go's runtime opens /dev/null in place of a
// stdout that is closed, for reading and writing, as Python and Node do to discard the output of a program. A closed stdout is found
// only where no /dev/null took its place.
func CheckStdout(hint string) error {
	_, err := os.Stdout.Write(nil)
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EPIPE) {
		return nil // the first write says so
	}
	return errors.New("stdout is closed; " + hint)
}
