package run

import (
	"context"
	"os"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// lifecycle is how a run ends. What is waited for, in this order:
//
//  1. the rows: all are read, or no more jobs are to start; a reader that hangs is left behind
//  2. jobs: each until its last try has ended, its output is shown and its line is in the joblog
//  3. what --keep-order holds back, of jobs behind one that never started
//  4. late: with --line-buffer, output of children that outlive their jobs, unless no more jobs are to start
//  5. ends: groups that are ended, each for 5 s at most, and messages that wait for the terminal
//
// Jobs may add to late and to ends, and late output to nothing, so each is complete when its turn comes. Steps 2 to 4 are
// [lifecycle.finish], on the goroutine that reads the rows; the last is [lifecycle.waitForEnds], on the one that takes signals.
//
// An early end has three degrees: stop, after which no more jobs start; endRunning, which ends those that run; and when all
// their groups are gone (areGone), another signal ends the program although output is left that nobody reads.
type lifecycle struct {
	stopping context.Context //nolint:containedctx // done when no more jobs are to start
	stop     context.CancelCauseFunc
	running  running

	jobs, late, ends sync.WaitGroup
}

func newLifecycle(ctx context.Context) *lifecycle {
	l := &lifecycle{running: newRunning()}
	l.stopping, l.stop = context.WithCancelCause(ctx)
	return l
}

// finish waits for the jobs, calls flush, and waits for late output if that is asked for.
func (l *lifecycle) finish(flush func(), late bool) {
	l.jobs.Wait()
	flush()
	if !late {
		return
	}
	over := make(chan struct{})
	go func() {
		l.late.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-l.stopping.Done():
	}
}

// ending calls f on a goroutine for which waitForEnds waits.
func (l *lifecycle) ending(f func()) { l.ends.Go(f) }

// endRunning ends the jobs that run. It does not wait for their groups.
func (l *lifecycle) endRunning() { l.ending(l.running.end) }

// waitForEnds returns when nothing is being ended any longer.
func (l *lifecycle) waitForEnds() { l.ends.Wait() }

// running are the processes that run.
type running struct {
	mu   sync.Mutex
	all  map[*process]struct{}
	over bool          // new ones are ended at once
	none bool          // since over all were ended, and their groups are gone
	gone chan struct{} // has room for one element: some have ended
}

func newRunning() running {
	return running{all: make(map[*process]struct{}), gone: make(chan struct{}, 1)}
}

// add notes a process; false: it is to be ended at once.
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
	select {
	case r.gone <- struct{}{}:
	default:
	}
}

// waitForEnd waits until a process has ended; false: none runs, or ctx is done.
func (r *running) waitForEnd(ctx context.Context) bool {
	select {
	case <-r.gone: // perhaps before the start that failed: then that is tried once more
		return true
	default:
	}
	if r.len() == 0 {
		select {
		case <-r.gone: // between the two looks
			return true
		default:
			return false
		}
	}
	select {
	case <-r.gone:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal sends a signal to the groups of all jobs.
func (r *running) signal(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.all {
		group.Signal(p.p, s)
	}
}

// end ends all, and returns when their groups are gone.
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

// areGone reports whether end has ended all.
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
