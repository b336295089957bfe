package run

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

var errInterrupted = errors.New("interrupted")

// watch runs the jobs, and does meanwhile what signals ask for.
func (r *runner) watch(rs rows) error {
	signals := make(chan os.Signal, 8)
	// Also SIGPIPE: a write to a pipe that nobody reads fails then, and the jobs are ended in good order.
	cli.Notify(signals, append([]os.Signal{
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, cli.UserSignal1, cli.UserSignal2,
	}, suspendSignals...)...)
	// They are caught until the program exits: one that comes after the last job must not change the exit status.
	done := make(chan error, 1)
	go func() { done <- r.runAll(rs) }()
	status := 0 // of the first signal that ended it
	for {
		select {
		case failure := <-done:
			r.waitForEnds()
			r.bar.close()
			if status != 0 {
				return cli.Exit(status, nil)
			}
			return r.verdict(failure)
		case s := <-signals:
			if r.goesOn(s, status != 0) {
				continue
			}
			status = cmp.Or(status, cli.StatusOf(s))
			if r.running.areGone() {
				return cli.Exit(status, nil) // all that is left is output that nobody reads
			}
		}
	}
}

// goesOn does what a signal asks for, and reports whether jobs start as before. again says that an earlier signal has
// ended that.
func (r *runner) goesOn(s os.Signal, again bool) bool {
	switch {
	case s == syscall.SIGPIPE || r.suspend(s):
		return true
	case s == cli.UserSignal1:
		r.tell(describeJobs(r.admission.more(1)))
		return true
	case s == cli.UserSignal2:
		r.tell(describeJobs(r.admission.more(-1)))
		return true
	}
	r.stop(errInterrupted)
	if s == os.Interrupt && !again {
		r.tell(fmt.Sprintf("no more jobs; waiting for %d that run. Ctrl-C again ends them", r.running.len()))
	} else {
		r.endRunning()
	}
	return false
}

func describeJobs(n int) string {
	if n == 0 {
		return "there is no limit on the jobs at once"
	}
	return fmt.Sprintf("%d jobs at once now", n)
}

// say tells a person something.
func (r *runner) say(text string) {
	r.output.mu.Lock()
	defer r.output.mu.Unlock()
	_, _ = fmt.Fprintf(r.output.err, "sluice run: %s\n", text)
}

// tell is say without a wait for an output that nobody reads.
func (r *runner) tell(text string) { r.ending(func() { r.say(text) }) }
