package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
	"github.com/sluice-go/sluice/worker"
)

// runner reads the input, runs a job for each row, and waits for the following, in this order:
//
//  1. the rows: until all are read or no more jobs start; a blocked reader is abandoned
//  2. jobs: until the last try of each has ended, its output is shown and its line is in the joblog
//  3. late: with --line-buffer, output of children that outlive their jobs, unless the run was stopped
//  4. ends: the end of process groups, each for at most 5 s, and messages that wait for the terminal
//
// A run ends early in three steps: after stop, no more jobs start; endRunning ends the running jobs; and when all their
// groups are gone, another signal ends the program even if some output has not been read.
type runner struct {
	o        options
	template template
	key      []token
	pool     *worker.Pool
	keys     *keys // nil: no limit per key
	slots    slots
	null     *os.File
	output   output
	log      *joblog // nil: none
	skip     map[int]bool
	bar      *bar          // nil: none
	ahead    chan struct{} // one element for each job that has not started
	unshown  chan struct{} // with --keep-order, one element for each job that has not printed
	starting sync.RWMutex  // locked while the machine has no room for one more program
	running  running

	stopping context.Context
	stop     context.CancelFunc

	jobs, late, ends sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	tally  tally
	halted *int  // the exit status after --halt; nil: not halted
	broken error // the error that stopped the run
}

const (
	maxAhead   = 1000 // at this number of jobs that wait for their keys, no more rows are read
	maxUnshown = 1000 // at this number of jobs that wait for their turn to print, no more start
)

func newRunner(ctx context.Context, o options) *runner {
	r := &runner{
		o: o, output: output{out: os.Stdout, err: os.Stderr}, running: newRunning(), skip: make(map[int]bool),
		ahead: make(chan struct{}, 1), unshown: make(chan struct{}, maxUnshown),
	}
	r.stopping, r.stop = context.WithCancel(ctx)
	r.output.failed = r.fault
	return r
}

// understand parses the words that may have replacement strings.
func (r *runner) understand(names []string) (err error) {
	if r.template, err = parseTemplate(r.o.command, names); err != nil {
		return err
	}
	r.key = []token{{kind: plain}}
	if r.o.flags.key != "" {
		if r.key, err = parseWord(r.o.flags.key, names); err != nil {
			return err
		}
	}
	if script := r.template.script(); script != nil && replaces(script) {
		r.say(`{} inside the script becomes a part of it; write ` + r.o.command[0] + ` -c '... "$1"' sh {}`)
	}
	return nil
}

// limit creates the pool and the limits per key.
func (r *runner) limit() error {
	limiter, err := r.o.rate.New("rate")
	if err != nil {
		return err
	}
	if r.o.jobs > 0 {
		jobs, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "jobs", PermitLimit: r.o.jobs})
		switch {
		case err != nil:
			return err
		case r.o.rate.Kind == spec.Unlimited:
			limiter = jobs
		default:
			if limiter, err = core.Chain(jobs, limiter); err != nil {
				return err
			}
		}
	}
	if r.pool, err = worker.New(worker.Options{Limiter: limiter}); err != nil || r.o.perKey.Kind == spec.Unlimited {
		return err
	}
	r.ahead = make(chan struct{}, maxAhead)
	r.keys, err = newKeys(r.o.perKey)
	return err
}

// openFiles opens the joblog and the stdin of the jobs.
func (r *runner) openFiles() (err error) {
	if name, appends := strings.CutPrefix(r.o.joblog, "+"); name != "" {
		resume := r.o.resume || r.o.resumeFailed
		var succeeded map[int]bool
		if r.log, succeeded, err = openJoblog(name, appends || resume); err != nil {
			return err
		}
		for seq, ok := range succeeded {
			r.skip[seq] = resume && (ok || !r.o.resumeFailed)
		}
	}
	r.null, err = os.Open(os.DevNull)
	return err
}

func (r *runner) closeFiles() {
	if r.log != nil {
		_ = r.log.f.Close()
	}
	_ = r.null.Close()
}

// showBar shows the bar below the output on the terminal.
func (r *runner) showBar() {
	r.bar = newBar(r.tally.all)
	if r.bar == nil {
		return
	}
	r.output.err = r.bar.line.Above(r.output.err)
	if cli.IsTerminal(os.Stdout) {
		r.output.out = r.bar.line.Above(r.output.out)
	}
}

// runAll runs a job for each row, and waits until all have ended.
func (r *runner) runAll(rs rows) error {
	failure := r.startAll(rs)
	r.jobs.Wait()
	if r.o.lineBuffer {
		over := make(chan struct{})
		go func() {
			r.late.Wait()
			close(over)
		}()
		select {
		case <-over:
		case <-r.stopping.Done():
		}
	}
	return failure
}

// startAll starts a job for each row, until there are no more rows or no more jobs are to start. Without a limit per key,
// each job waits until the job before it has started.
func (r *runner) startAll(rs rows) error {
	now := make(chan struct{})
	close(now)
	turn := now
	input := r.read(rs)
	for seq := 1; ; seq++ {
		next, ok := take(r.stopping, input)
		if !ok || next.err != nil {
			return next.err
		}
		if r.skip[seq] {
			r.bar.add()
			continue
		}
		j := &job{seq: seq, row: next.row, turn: now, printed: make(chan struct{})}
		if r.o.keepOrder {
			if !put(r.stopping, r.unshown) {
				return nil
			}
			j.turn, turn = turn, j.printed
		}
		if !put(r.stopping, r.ahead) {
			close(j.printed)
			return nil
		}
		if r.keys != nil {
			j.key = expandWord(r.key, j.row, j.seq, 0)
			j.first = r.keys.join(j.key, false)
		}
		r.jobs.Go(func() { r.live(j) })
	}
}

// read returns a channel of the rows. The goroutine that reads them is abandoned if it is blocked when the run stops.
func (r *runner) read(rs rows) <-chan rowOrError {
	input := make(chan rowOrError, 64)
	go func() {
		defer close(input)
		for row, err := range rs {
			select {
			case input <- rowOrError{row, err}:
			case <-r.stopping.Done():
				return
			}
		}
	}()
	return input
}

type rowOrError struct {
	row row
	err error
}

// take returns the next element of c; false if there is none, or ctx is done.
func take[T any](ctx context.Context, c <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-c:
	case <-ctx.Done():
	}
	return v, ok && ctx.Err() == nil
}

// pause waits, and reports whether more jobs may start afterwards.
func (r *runner) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	_, ok := take(r.stopping, t.C)
	return ok
}

// put puts an element into c, unless ctx is done.
func put(ctx context.Context, c chan<- struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// count counts a job that has ended, and stops the run if --halt asks for that.
func (r *runner) count(j *job) {
	j.counted = true
	r.bar.add()
	if !r.reachesHalt(j.result) {
		return
	}
	text := fmt.Sprintf("halting after job %d: no more jobs start", j.seq)
	if r.o.halt.now {
		r.endRunning()
		text += ", and running jobs are ended"
	}
	r.say(text)
}

// reachesHalt counts a result, and reports whether --halt stops the run because of it.
func (r *runner) reachesHalt(last result) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.finished++
	if last.failed() {
		r.tally.failed++
	}
	status, reached := r.o.halt.reached(r.tally, last)
	if !reached || r.stopping.Err() != nil {
		return false
	}
	r.halted = &status
	r.stop()
	return true
}

// fault records an error of the runner itself and ends the run.
func (r *runner) fault(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
		r.stop()
		r.endRunning()
	}
}

// dryRun prints the commands.
func (r *runner) dryRun(rs rows, w io.Writer) error {
	seq := 0
	for row, err := range rs {
		if err != nil {
			return err
		}
		seq++
		j := &job{seq: seq, row: row}
		if _, err := fmt.Fprintln(w, r.tag(j)+quote(r.template.expand(row, seq, 1))); err != nil {
			return err
		}
	}
	return nil
}

// verdict returns the error with which the program ends.
func (r *runner) verdict(failure error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.o.halt.status(r.tally)
	switch {
	case errors.Is(r.broken, syscall.EPIPE):
		status = cli.BrokenPipe // the reader of the output is gone
	case r.broken != nil:
		return r.broken
	case failure != nil:
		return failure
	case r.halted != nil:
		status = *r.halted
	}
	if status == 0 {
		return nil
	}
	return cli.Exit(status, nil)
}

// slots numbers the running jobs from 1: each takes the lowest free number.
type slots struct {
	mu    sync.Mutex
	taken []bool
}

func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.taken, false)
	if i < 0 {
		i = len(s.taken)
		s.taken = append(s.taken, false)
	}
	s.taken[i] = true
	return i + 1
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[n-1] = false
}
