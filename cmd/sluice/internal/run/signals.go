package run

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// watch runs the jobs and reacts to signals.
func (r *runner) watch(rs rows) error {
	signals := make(chan os.Signal, 8)
	// SIGPIPE is caught so that a write to a pipe without a reader returns an error, and the jobs are ended.
	cli.Notify(signals, append([]os.Signal{
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
	}, suspendSignals...)...)
	// Signals are caught until the program exits, so that one after the last job does not change the exit status.
	done := make(chan struct{})
	go func() {
		r.startAll(rs)
		r.jobs.Wait()
		close(done)
	}()
	interrupted := false
	for {
		select {
		case <-done:
			r.messages.Wait()
			r.bar.close()
			r.summarize(interrupted)
			return r.verdict()
		case s := <-signals:
			if s == syscall.SIGPIPE || r.suspend(s) {
				continue
			}
			if r.killing.Err() != nil && r.running.len() == 0 {
				return r.verdict() // only output that no program reads is left
			}
			r.stop(cli.Exit(cli.StatusOf(s), nil))
			if s == os.Interrupt && !interrupted {
				r.say(fmt.Sprintf("no more jobs; waiting for %d that run. Ctrl-C again ends them", r.running.len()))
			} else {
				r.kill()
			}
			interrupted = true
		}
	}
}

// say prints a message. It does not wait if the output blocks.
func (r *runner) say(text string) { r.messages.Go(func() { r.output.say(text) }) }

// running is the set of running processes.
type running struct {
	starting sync.RWMutex // read-locked while a program starts and is not in the set yet
	mu       sync.Mutex   // taken after starting
	all      map[*process]struct{}
}

func (r *running) start(j *job, null *os.File) (*process, error) {
	r.starting.RLock()
	defer r.starting.RUnlock()
	p, err := start(j, null)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all[p] = struct{}{}
	}
	return p, err
}

func (r *running) remove(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, p)
}

// signal sends a signal to the groups of all jobs.
func (r *running) signal(s os.Signal) {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.all {
		group.Signal(p.p, s)
	}
}

func (r *running) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
