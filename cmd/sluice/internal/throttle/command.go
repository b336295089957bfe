// Package throttle copies files, or standard input, to standard output at a rate.
package throttle

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  sluice throttle -L 8MiB/s image.iso > /mnt/stick/image.iso
  pg_dump app | sluice throttle -L 500kB/s | ssh backup 'cat > app.sql'
  tail -f access.log | sluice throttle -l -L 10/s
  sluice throttle --schedule "08:00,512kB/s 18:00,10MB/s 23:00,unlimited" backup.tar | nc backup 9000
  kill -USR1 PID    # twice the rate; kill -USR2 PID: half of it`

// flags are what the user asks for.
type flags struct {
	rate, burst, size, schedule string
	lines, null                 bool
	quiet, numeric, verbose     bool
	parts                       parts
	every                       cli.Duration
	name, out, progress         string
}

// New returns the command.
func New() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "throttle [flags] [FILE...]",
		Short: "Copy files, or standard input, to standard output at a rate",
		Long: `Throttle copies files, or standard input, to standard output at a rate: as pv -L
does, but in slices of 4 ms, and exact. A file named - is standard input.

A RATE is an amount and a time: 8MiB/s, 1.5MB/s, 100/m; /s may be left out. k, M, G
and T are powers of 1000, Ki, Mi, Gi and Ti of 1024. A plain number is bytes, or
lines with -l. The rate is even from the first slice on, unless it has a burst. pv's
-L 8M is 8Mi here, and its -L 0 is unlimited.
SIGUSR1 doubles the rate, SIGUSR2 halves it.

On a terminal it shows how far it is, and a summary at the end; -b -t -r -a -e -p choose
what. Without a terminal -v, or any of them, asks for the summary.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.NotEmpty(c.Flags(), "rate-limit", "burst", "schedule", "size"); err != nil {
				return err
			}
			o, err := f.options(args)
			if err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVarP(&f.rate, "rate-limit", "L", "", "copy no more than `RATE`")
	s.StringVar(&f.burst, "burst", "", "let as much as `SIZE` pass at once after a pause (default: what comes in 10 ms)")
	s.StringVar(&f.schedule, "schedule", "", "rates by the time of day: \"08:00,512kB/s 23:00,unlimited\"")
	s.BoolVarP(&f.lines, "line-mode", "l", false, "the rate is lines; no line is split")
	s.BoolVarP(&f.null, "null", "0", false, "lines end with a NUL; implies -l")
	s.StringVarP(&f.out, "output", "o", "-", "write to `FILE`; - is standard output")
	s.StringVarP(&f.size, "size", "s", "", "expect `SIZE` bytes, for percent and time left; 0: unknown (default: the files' size)")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "show nothing, not even the summary")
	s.BoolVarP(&f.verbose, "verbose", "v", false, "print the summary without a terminal too")
	s.BoolVarP(&f.numeric, "numeric", "n", false, "print percent, or bytes if the size is not known, a line each interval")
	s.StringVar(&f.progress, "progress", "", "print progress as `json`, a line each interval")
	s.BoolVarP(&f.parts.bytes, "bytes", "b", false, "show how much has passed")
	s.BoolVarP(&f.parts.timer, "timer", "t", false, "show the time taken")
	s.BoolVarP(&f.parts.rate, "rate", "r", false, "show the rate now")
	s.BoolVarP(&f.parts.average, "average-rate", "a", false, "show the rate since the beginning")
	s.BoolVarP(&f.parts.eta, "eta", "e", false, "show the time left")
	s.BoolVarP(&f.parts.bar, "progress-bar", "p", false, "show a bar")
	f.every = cli.Duration(time.Second)
	s.VarP(&f.every, "interval", "i", "show it anew each `TIME`")
	s.StringVarP(&f.name, "name", "N", "", "show `NAME` in front")
	return c
}

// options are the flags, understood.
type options struct {
	limit    spec.Limit // at the beginning; Unlimited if there is none
	binary   bool       // show KiB, MiB …
	schedule schedule
	files    []string
	out      string
	end      byte // of a line
	lines    bool
	size     int64
	style    style
	parts    parts
	every    time.Duration
	name     string
	verbose  bool // the summary is printed without a terminal too
}

// style is how progress is shown.
type style uint8

const (
	forPeople style = iota
	silent
	numeric
	asJSON
)

func (f *flags) options(files []string) (o options, err error) {
	o = options{
		files: files, out: f.out, end: '\n', lines: f.lines || f.null, parts: f.parts.orAll(),
		every: time.Duration(f.every), name: f.name, verbose: f.verbose || f.parts.any(), limit: spec.Limit{Kind: spec.Unlimited},
	}
	if f.null {
		o.end = 0
	}
	if len(files) == 0 {
		o.files = []string{"-"}
	}
	if o.every < minInterval {
		return o, cli.Usage("--interval %v is too short, want at least %v", o.every, minInterval)
	}
	switch {
	case f.schedule != "" && f.rate != "":
		return o, cli.Usage("--rate-limit and --schedule: want one of them")
	case f.schedule == "" && f.rate == "" && f.burst != "":
		return o, cli.Usage("--burst without --rate-limit or --schedule")
	case f.schedule != "":
		o.schedule, err = parseSchedule(f.schedule, f.burst)
	case f.rate != "":
		o.limit, err = parseRate(f.rate, f.burst)
	}
	if err != nil {
		return o, err
	}
	if o.schedule != nil {
		o.limit = o.schedule.at(time.Now())
	}
	o.binary = binaryUnit(f.rate + f.schedule)
	if f.size != "" {
		if o.size, err = parseSize(f.size); err != nil {
			return o, err
		}
	}
	switch {
	case f.progress != "" && f.progress != "json":
		return o, cli.Usage("--progress %q, want json", f.progress)
	case f.progress != "":
		o.style = asJSON
	case f.numeric:
		o.style = numeric
	case f.quiet:
		o.style = silent
	}
	return o, nil
}

const minInterval = 10 * time.Millisecond

// stopGrace is how long a signal waits for a copy that hangs in a read or a write.
const stopGrace = 100 * time.Millisecond

func (o options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := newPace(o.limit)
	if err != nil {
		return err
	}
	j, err := o.open(ctx, p) // before signals are caught: to open a pipe may take until it has a reader
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	// Also SIGPIPE: then a write to a pipe that nobody reads fails, rather than end the program in the middle.
	cli.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, cli.UserSignal1, cli.UserSignal2)
	defer signal.Stop(signals)
	if o.schedule != nil {
		go p.follow(ctx, o.schedule, time.Now)
	}
	done := make(chan error, 1)
	go func() { done <- j.copyAll() }()
	stopShow := j.show(o)
	var stopped os.Signal
	for ended := false; !ended; {
		select {
		case err = <-done:
			ended = true
		case s := <-signals:
			if change := rateChange(s); change != nil {
				j.say(p.scale(change))
			} else if s != syscall.SIGPIPE {
				stopped = s
				cancel(errStopped)
				err = within(stopGrace, done)
				ended = true
			}
		}
	}
	stopShow()
	return j.conclude(o, stopped, err)
}

// within waits for an error, but not longer than d.
func within(d time.Duration, done <-chan error) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errStopped
	}
}

var errStopped = errors.New("stopped")

// conclude writes what was done and returns how the program ends.
func (j *job) conclude(o options, stopped os.Signal, err error) error {
	if closing := j.close(); err == nil && stopped == nil {
		err = closing
	}
	if stopped == nil && errors.Is(err, syscall.EPIPE) {
		return cli.Exit(cli.BrokenPipe, nil) // as if by the signal: without a word
	}
	j.last(o, stopped != nil, err == nil)
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
