package run

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// watch runs the jobs and reacts to signals.
func (r *runner) watch(rs rows) error {
	// A start blocks a P until the program runs. With more Ps than CPUs, the other jobs continue during a start.
	runtime.GOMAXPROCS(2 * runtime.GOMAXPROCS(0))
	signals := make(chan os.Signal, 8)
	// SIGPIPE is caught so that a write to a pipe without a reader returns an error, and the jobs are ended.
	cli.Notify(signals, append([]os.Signal{
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
	}, suspendSignals...)...)
	// Signals are caught until the program exits, so that one after the last job does not change the exit status.
	done := make(chan error, 1)
	go func() { done <- r.runAll(rs) }()
	status := 0 // of the first signal that stopped the run
	for {
		select {
		case failure := <-done:
			r.ends.Wait()
			r.bar.close()
			if status != 0 {
				return cli.Exit(status, nil)
			}
			return r.verdict(failure)
		case s := <-signals:
			if s == syscall.SIGPIPE || r.suspend(s) {
				continue
			}
			r.stop()
			if s == os.Interrupt && status == 0 {
				r.tell(fmt.Sprintf("no more jobs; waiting for %d that run. Ctrl-C again ends them", r.running.len()))
			} else {
				r.endRunning()
			}
			status = cmp.Or(status, cli.StatusOf(s))
			if r.running.areGone() {
				return cli.Exit(status, nil) // only output that no program reads is left
			}
		}
	}
}

// say prints a message.
func (r *runner) say(text string) {
	r.output.mu.Lock()
	defer r.output.mu.Unlock()
	_, _ = fmt.Fprintf(r.output.err, "sluice run: %s\n", text)
}

// tell is say, but does not wait if the output blocks.
func (r *runner) tell(text string) { r.ends.Go(func() { r.say(text) }) }

// endRunning ends the running jobs. It does not wait for the end of their groups.
func (r *runner) endRunning() { r.ends.Go(r.running.end) }

// running is the set of running processes.
type running struct {
	mu   sync.Mutex
	all  map[*process]struct{}
	over bool // new ones are ended immediately
	none bool // end has returned: all groups are gone
}

func newRunning() running { return running{all: make(map[*process]struct{})} }

// add adds a process. It returns false if the caller must end the process immediately.
func (r *running) add(p *process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[p] = struct{}{}
	return !r.over
}

func (r *running) remove(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, p)
}

// signal sends a signal to the groups of all jobs.
func (r *running) signal(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.all {
		group.Signal(p.p, s)
	}
}

// end ends all processes, and returns when their groups are gone.
func (r *running) end() {
	r.mu.Lock()
	r.over = true
	var w sync.WaitGroup
	for p := range r.all {
		w.Go(p.end)
	}
	r.mu.Unlock()
	w.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.none = true
}

// areGone reports whether end has returned.
func (r *running) areGone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.none
}

func (r *running) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
