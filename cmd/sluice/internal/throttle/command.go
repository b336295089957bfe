// Package throttle copies files, or stdin, to stdout at a rate.
//
// The copy is [ioreader.Copy], with the limiter of pace.go; lines have a loop of their own. A display reads how far the copy
// is.
package throttle

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  sluice throttle -L 8MiB/s image.iso > /mnt/stick/image.iso
  pg_dump app | sluice throttle -L 500kB/s | ssh backup 'cat > app.sql'
  tail -f access.log | sluice throttle -l -L 10/s
  sluice throttle --schedule "08:00,512kB/s 18:00,10MB/s 23:00,unlimited" backup.tar | nc backup 9000
  kill -USR1 PID    # double the rate; kill -USR2 PID halves it`

// flags are the command's flags, as the user wrote them.
type flags struct {
	limit, burst, size, schedule string
	lines, null                  bool
	quiet, numeric, verbose      bool
	parts                        parts
	every                        cli.Duration
	name, out, progress          string
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "throttle {--limit RATE | --schedule TEXT} [flags] [FILE...]",
		Short: "Copy files or stdin to stdout at a rate",
		Long: `Throttle copies files, or stdin, to stdout at a rate, like pv -L. A file named - is stdin.

A RATE is an amount and a time: 8MiB/s, 1.5MB/s, 100/m (per minute). You can leave out /s.
k, M, G and T are powers of 1000; Ki, Mi, Gi and Ti are powers of 1024. To get the rate of
pv -L 8M, write 8Mi. A plain number is bytes per second, or lines per second with -l.
"unlimited" copies at full speed. The rate is even unless it has a burst. SIGUSR1 doubles
the rate, and SIGUSR2 halves it.

On a terminal, throttle shows its progress and prints a summary at the end; -b, -t, -r,
-a, -e and -p select what to show. If stderr is not a terminal, -v or any of these flags
prints the summary.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.options(args)
			if err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "rate-limit" { // pv's name
			name = "limit"
		}
		return pflag.NormalizedName(name)
	})
	s.StringVarP(&f.limit, "limit", "L", "", "copy at most at `RATE`")
	s.StringVar(&f.burst, "burst", "", "let a burst of up to `SIZE` pass after a pause; SIZE is like a RATE without its time (default: the amount of 10 ms)")
	s.StringVar(&f.schedule, "schedule", "", "change the rate by local time of day; `TEXT` is \"08:00,512kB/s 23:00,unlimited\"")
	s.BoolVarP(&f.lines, "line-mode", "l", false, "limit lines instead of bytes; do not split lines")
	s.BoolVarP(&f.null, "null", "0", false, "end lines with NUL; implies -l")
	s.StringVarP(&f.out, "output", "o", "-", "write to `FILE`; - is stdout")
	s.StringVarP(&f.size, "size", "s", "", "expect `SIZE` bytes, or lines with -l, for percent and time left; 0 means unknown (default: the size of the files)")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing, not even the summary")
	s.BoolVarP(&f.verbose, "verbose", "v", false, "print the summary even without a terminal")
	s.BoolVarP(&f.numeric, "numeric", "n", false, "print percent, or bytes if the size is unknown, one line per interval")
	s.StringVar(&f.progress, "progress", "", "print progress as `json`, one line per interval")
	s.BoolVarP(&f.parts.bytes, "bytes", "b", false, "show the amount copied")
	s.BoolVarP(&f.parts.timer, "timer", "t", false, "show the elapsed time")
	s.BoolVarP(&f.parts.rate, "rate", "r", false, "show the current rate")
	s.BoolVarP(&f.parts.average, "average-rate", "a", false, "show the average rate")
	s.BoolVarP(&f.parts.eta, "eta", "e", false, "show the time left")
	s.BoolVarP(&f.parts.bar, "progress-bar", "p", false, "show a bar")
	f.every = cli.Duration(time.Second)
	s.VarP(&f.every, "interval", "i", "update the display every `TIME`: 250ms, or a number of seconds")
	s.StringVarP(&f.name, "name", "N", "", "show `NAME` in front of the progress")
	return c
}

// options are the flags and what they mean.
type options struct {
	flags

	limit    spec.Limit // at the start
	binary   bool       // show KiB, MiB …
	schedule schedule
	files    []string
	end      byte // of a line
	size     int64
	style    style
}

// style says how progress is shown.
type style uint8

const (
	forPeople style = iota
	silent
	numeric
	asJSON
)

func (f *flags) options(files []string) (o options, err error) {
	o = options{flags: *f, files: files, end: '\n'}
	o.verbose = f.verbose || f.parts.any()
	o.parts = f.parts.orAll()
	if f.null {
		o.lines, o.end = true, 0
	}
	if len(files) == 0 {
		o.files = []string{"-"}
	}
	if every := time.Duration(f.every); every < minInterval {
		return o, cli.Usage("--interval %v is too short; use at least %v", every, minInterval)
	}
	switch {
	case f.schedule != "" && f.limit != "":
		return o, cli.Usage("use --limit or --schedule, not both")
	case f.schedule != "":
		o.schedule, err = parseSchedule(f.schedule, f.burst)
	case f.limit != "":
		o.limit, err = parseRate(f.limit, f.burst)
	}
	if err != nil {
		return o, err
	}
	if o.schedule != nil {
		o.limit = o.schedule.at(time.Now())
	}
	o.binary = binaryUnit(f.limit + f.schedule)
	if f.size != "" {
		if o.size, err = parseSize(f.size); err != nil {
			return o, err
		}
	}
	switch {
	case f.progress != "" && f.progress != "json":
		return o, cli.Usage("--progress %q is not a format; use json", f.progress)
	case f.progress != "":
		o.style = asJSON
	case f.numeric:
		o.style = numeric
	case f.quiet:
		o.style = silent
	}
	if f.limit+f.schedule == "" {
		return o, f.noRate(files)
	}
	return o, nil
}

// noRate is the error of a copy without a rate.
func (f *flags) noRate(files []string) error {
	if f.parts.rate && len(files) > 0 {
		if _, err := parseRate(files[0], ""); err == nil {
			return cli.Usage("--rate only shows the rate; use --limit %s to set it", files[0])
		}
	}
	return cli.Usage("no rate; use --limit RATE, such as 8MiB/s, or --limit unlimited to copy at full speed")
}

const minInterval = 10 * time.Millisecond

// stopGrace is how long a signal waits for a copy that is blocked in a read or a write.
const stopGrace = 100 * time.Millisecond

func (o options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := newPace(o.limit)
	if err != nil {
		return err
	}
	j, err := o.open(p) // before signals are caught, because opening a named pipe waits for a reader
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	// SIGPIPE is caught so that a write to a pipe without a reader returns an error instead of ending the program.
	cli.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, cli.UserSignal1, cli.UserSignal2)
	defer signal.Stop(signals)
	runtime.GOMAXPROCS(1) // one goroutine copies; with more Ps, each of its waits would wake a thread that finds no work
	if o.schedule != nil {
		stopFollowing := cli.Every(time.Second, p.follow(o.schedule, time.Now))
		defer stopFollowing()
	}
	done := make(chan error, 2)
	go func() { done <- j.copyAll(ctx) }()
	stopShow := j.show()
	var stopped os.Signal
	for ended := false; !ended; {
		select {
		case err = <-done:
			ended = true
		case s := <-signals:
			if change := rateChange(s); change != nil {
				j.say(p.scale(change))
			} else if s != syscall.SIGPIPE {
				stopped, ended = s, true
				cancel()
				grace := time.AfterFunc(stopGrace, func() { done <- nil })
				<-done //nolint:errcheck // the signal is what ended the copy
				grace.Stop()
			}
		}
	}
	stopShow()
	return j.conclude(stopped, err)
}

// conclude prints the summary and returns the error with which the program ends.
func (j *job) conclude(stopped os.Signal, err error) error {
	if closing := j.close(); err == nil && stopped == nil {
		err = closing
	}
	if stopped == nil && errors.Is(err, syscall.EPIPE) {
		return cli.Exit(cli.BrokenPipe, nil) // without a message, as if the signal had ended the program
	}
	j.last(stopped != nil, stopped == nil && err == nil)
	switch {
	case stopped != nil:
		return cli.Exit(cli.StatusOf(stopped), nil)
	case err != nil:
		return err
	case j.failed:
		return cli.Exit(cli.Failure, nil)
	}
	return nil
}
