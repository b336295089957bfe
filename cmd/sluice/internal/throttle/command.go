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
	"regexp"
	"runtime"
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
  kill -USR1 PID    # double the rate; kill -USR2 PID halves it`

// options are the flags and what they mean.
type options struct {
	rate, burst, timetable, size string
	lines, null                  bool
	quiet, numeric, verbose      bool
	parts                        parts
	every                        cli.Duration
	name, out, progress          string

	files    []string
	limits   spec.Limits // at the start
	schedule schedule    // nil means that limits do not change
	binary   bool        // show KiB, MiB …
	end      byte        // end of a line
	total    int64       // expected bytes, or lines; 0: unknown
}

// New returns the command.
func New() *cobra.Command {
	o := &options{every: cli.Duration(time.Second)}
	c := &cobra.Command{
		Use:   "throttle {--limit RATE | --schedule TEXT} [flags] [FILE...]",
		Short: "Copy files or stdin to stdout at a rate",
		Long: `Throttle copies files, or stdin, to stdout at a rate, like pv -L. A file named - is stdin.

A RATE is an amount and a time: 8MiB/s, 1.5MB/s, 100/m (per minute). You can leave out /s.
k, M, G and T are powers of 1000; Ki, Mi, Gi and Ti are powers of 1024. To get the rate of
pv -L 8M, write 8Mi. A plain number is bytes per second, or lines per second with -l.
"unlimited" copies at full speed. The rate is even unless it has a burst. SIGUSR1 doubles
the rate, and SIGUSR2 halves it. Fixed and sliding windows, such as "fixed 10GB/day", are
rates too, and several limits with commas all apply; "sluice help limits" explains them.

On a terminal, throttle shows its progress and prints a summary at the end; -b, -t, -r,
-a, -e and -p select what to show. If stderr is not a terminal, -v or any of these flags
prints the summary.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.read(args); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVarP(&o.rate, "limit", "L", "", "copy at most at `RATE`, or at several with commas")
	s.StringVar(&o.burst, "burst", "", "let a burst of up to `SIZE` pass after a pause; SIZE is like a RATE without its time (default: the amount of 20 ms)")
	s.StringVar(&o.timetable, "schedule", "", "change the rate by local time of day; `TEXT` is \"08:00,512kB/s 23:00,unlimited\"")
	s.BoolVarP(&o.lines, "line-mode", "l", false, "limit lines instead of bytes; do not split lines")
	s.BoolVarP(&o.null, "null", "0", false, "end lines with NUL; implies -l")
	s.StringVarP(&o.out, "output", "o", "-", "write to `FILE`; - is stdout")
	s.StringVarP(&o.size, "size", "s", "", "expect `SIZE` bytes, or lines with -l, for percent and time left; 0 means unknown (default: the size of the files)")
	s.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing, not even the summary")
	s.BoolVarP(&o.verbose, "verbose", "v", false, "print the summary even without a terminal")
	s.BoolVarP(&o.numeric, "numeric", "n", false, "print percent, or bytes if the size is unknown, one line per interval")
	s.StringVar(&o.progress, "progress", "", "print progress as `json`, one line per interval")
	s.BoolVarP(&o.parts.bytes, "bytes", "b", false, "show the amount copied")
	s.BoolVarP(&o.parts.timer, "timer", "t", false, "show the elapsed time")
	s.BoolVarP(&o.parts.rate, "rate", "r", false, "show the current rate")
	s.BoolVarP(&o.parts.average, "average-rate", "a", false, "show the average rate")
	s.BoolVarP(&o.parts.eta, "eta", "e", false, "show the time left")
	s.BoolVarP(&o.parts.bar, "progress-bar", "p", false, "show a bar")
	s.VarP(&o.every, "interval", "i", "update the display every `TIME`: 250ms, or a number of seconds")
	s.StringVarP(&o.name, "name", "N", "", "show `NAME` in front of the progress")
	return c
}

func (o *options) read(files []string) (err error) {
	if o.files = files; len(files) == 0 {
		o.files = []string{"-"}
	}
	if o.end = '\n'; o.null {
		o.lines, o.end = true, 0
	}
	if o.parts != (parts{}) {
		o.verbose = true
	} else {
		o.parts = parts{bytes: true, timer: true, rate: true, eta: true, bar: true}
	}
	o.binary = binaryPrefix.MatchString(o.rate + o.timetable)
	if every := time.Duration(o.every); every < minInterval {
		return cli.Usage("--interval %v is too short; use at least %v", every, minInterval)
	}
	if o.progress != "" && o.progress != "json" {
		return cli.Usage("--progress %q is not a format; use json", o.progress)
	}
	if o.size != "" {
		if o.total, err = o.parseSize("--size", o.size, "a number of bytes such as 500000 or 10MiB"); err != nil {
			return err
		}
	}
	switch {
	case o.timetable != "" && o.rate != "":
		return cli.Usage("use --limit or --schedule, not both")
	case o.timetable != "":
		if o.schedule, err = o.parseSchedule(o.timetable, o.burst); err == nil {
			o.limits = o.schedule.at(time.Now())
		}
	case o.rate != "":
		if o.limits, err = o.parseRate(o.rate, o.burst); err == nil {
			err = o.missingUnit()
		}
	default:
		err = cli.Usage("no rate; use --limit RATE, such as 8MiB/s, or --limit unlimited to copy at full speed")
	}
	return err
}

var binaryPrefix = regexp.MustCompile(`(?i)[0-9][kmgt]i`)

const minInterval = 10 * time.Millisecond

// stopGrace is how long a signal waits for a copy that is blocked in a read or a write.
const stopGrace = 100 * time.Millisecond

func (o *options) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	j, err := o.open() // before signals are caught, because opening a named pipe waits for a reader
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	// SIGPIPE is caught so that a write to a pipe without a reader returns an error instead of ending the program.
	cli.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, cli.UserSignal1, cli.UserSignal2)
	defer signal.Stop(signals)
	runtime.GOMAXPROCS(1) // one goroutine copies; with more Ps, each of its waits would wake a thread that finds no work
	if o.schedule != nil {
		stopFollowing := cli.Every(time.Second, j.pace.follow(o.schedule, time.Now))
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
			switch s {
			case syscall.SIGPIPE:
			case cli.UserSignal1, cli.UserSignal2:
				j.say(j.pace.change(s))
			default:
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
	if j.sink.f != os.Stdout {
		if closing := j.sink.f.Close(); err == nil { // when some errors show
			err = closing
		}
	}
	if stopped != nil {
		err = cli.Exit(cli.StatusOf(stopped), nil)
	} else if errors.Is(err, syscall.EPIPE) {
		return cli.Exit(cli.BrokenPipe, nil) // without a message, as if the signal had ended the program
	}
	j.last(stopped != nil, err == nil)
	return err
}
