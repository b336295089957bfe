package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// runner reads the input, runs a job for each row, and waits for their ends. What is waited for, in this order:
//
//  1. the rows: all are read, or no more jobs are to start; a reader that hangs is left behind
//  2. jobs: each until its last try has ended, its output is shown and its line is in the joblog
//  3. late: with --line-buffer, output of children that outlive their jobs, unless no more jobs are to start
//  4. ends: groups that are ended, each for 5 s at most, and messages that wait for the terminal
//
// An early end has three degrees: stop, after which no more jobs start; endRunning, which ends those that run; and when all
// their groups are gone, another signal ends the program although output is left that nobody reads.
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
	bar      *bar         // nil: none
	starting sync.RWMutex // locked while the machine has no room for one more program
	running  running

	stopping context.Context
	stop     context.CancelCauseFunc

	jobs, late, ends sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	tally  tally
	halted *int  // the exit status after --halt; nil: not halted
	broken error // what ended everything
}

// errHalted is why no more jobs start after --halt.
var errHalted = errors.New("halted")

func newRunner(ctx context.Context, o options) *runner {
	r := &runner{o: o, output: output{out: os.Stdout, err: os.Stderr}, running: newRunning()}
	r.stopping, r.stop = context.WithCancelCause(ctx)
	r.output.failed = r.fault
	return r
}

// understand reads the words that may have replacement strings.
func (r *runner) understand(names []string) (err error) {
	if r.template, err = parseTemplate(r.o.command, names); err != nil {
		return err
	}
	r.key = []token{{kind: plain}}
	if r.o.flags.key != "" {
		if r.key, err = newSyntax(names).parseWord(r.o.flags.key); err != nil {
			return err
		}
	}
	if script := r.template.script(); script != nil && replaces(script) {
		r.say(`{} inside the script becomes a part of it; write ` + r.o.command[0] + ` -c '... "$1"' sh {}`)
	}
	return nil
}

// limit makes the pool, and the limits of the keys.
func (r *runner) limit() error {
	limiter, err := r.o.rate.New("rate")
	if err != nil {
		return err
	}
	if r.o.jobs > 0 {
		jobs, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "jobs", PermitLimit: r.o.jobs, QueueLimit: math.MaxInt})
		if err != nil {
			return err
		}
		if limiter, err = core.Chain(jobs, limiter); err != nil {
			return err
		}
	}
	if r.pool, err = worker.New(worker.Options{Limiter: limiter}); err != nil || !r.o.limited() {
		return err
	}
	r.keys, err = newKeys(r.o.perKey)
	return err
}

// openFiles opens the joblog, and what the jobs read.
func (r *runner) openFiles() (err error) {
	if name, appends := strings.CutPrefix(r.o.joblog, "+"); name != "" {
		if r.o.resume || r.o.resumeFailed {
			appends = true
			if r.skip, err = readJoblog(name, r.o.resumeFailed); err != nil {
				return err
			}
		}
		if r.log, err = openJoblog(name, appends); err != nil {
			return err
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

// showBar shows the bar below what is written to the terminal.
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

// mostAhead is how many jobs may wait for their turn to print before no more are started.
const mostAhead = 1000

// runAll runs a job for each row, and waits for their ends.
func (r *runner) runAll(rs rows) error {
	failure := r.enterAll(rs)
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

// enterAll lets a job wait for its start for each row, until there are no more rows or no more jobs are to start.
func (r *runner) enterAll(rs rows) error {
	seq := 0
	first := make(chan struct{})
	close(first)
	ahead, turn := make(chan struct{}, mostAhead), first
	for next := range r.read(rs) {
		if next.err != nil {
			return next.err
		}
		seq++
		if r.skip[seq] {
			r.bar.add()
			continue
		}
		j := &job{seq: seq, row: next.row, turn: first, printed: make(chan struct{})}
		if r.o.keepOrder {
			select {
			case ahead <- struct{}{}:
			case <-r.stopping.Done():
				return nil
			}
			j.turn, j.ahead, turn = turn, ahead, j.printed
		}
		r.jobs.Add(1)
		if err := r.enter(j); err != nil {
			r.never(j, err)
			return nil
		}
	}
	return nil
}

// enter starts a job when it is admitted: now, or, if its key may hold it up, later.
func (r *runner) enter(j *job) error {
	if r.keys == nil {
		return r.submit(j)
	}
	j.key = expandWord(r.key, j.row, j.seq, 0)
	return r.keys.join(r.stopping, j.key, func() { r.enterOfKey(j) })
}

// submit waits until a job starts.
func (r *runner) submit(j *job) error {
	return r.pool.Submit(r.stopping, func(context.Context) error {
		r.run(j)
		return nil
	})
}

// enterOfKey waits until a job that is the first of its key's line starts. It takes the permit of the key at its start: one
// that was taken before the wait for a place would be as old as that wait, and the next job of the key could follow at once.
func (r *runner) enterOfKey(j *job) {
	err := r.keys.wait(r.stopping, j.key)
	if err == nil {
		taken := make(chan struct{})
		err = r.pool.Submit(r.stopping, func(context.Context) error {
			defer r.keys.take(r.stopping, j.key).Release() //nolint:contextcheck // the wait ends with the run, not with the pool
			close(taken)
			r.run(j)
			return nil
		})
		if err == nil {
			<-taken
		}
	}
	if err != nil {
		r.never(j, err)
	}
}

// never ends a job that has not started, or not again.
func (r *runner) never(j *job, err error) {
	if r.stopping.Err() == nil {
		r.fault(err)
	}
	if j.stdout != nil {
		r.ended(j) // with what its last try has printed
		return
	}
	r.done(j)
}

// read yields the rows until no more jobs are to start, even if the input then stands still: the goroutine that reads
// it is left behind.
func (r *runner) read(rs rows) iter.Seq[rowOrError] {
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
	return func(yield func(rowOrError) bool) {
		for {
			select {
			case <-r.stopping.Done():
				return
			case e, ok := <-input:
				if !ok || r.stopping.Err() != nil || !yield(e) {
					return
				}
			}
		}
	}
}

type rowOrError struct {
	row row
	err error
}

// count counts a job that has ended, and halts if --halt asks for that.
func (r *runner) count(j *job) {
	r.bar.add()
	if text := r.countAndHalt(j); text != "" {
		r.say(text)
	}
}

// countAndHalt returns the message for the terminal; "" for none.
func (r *runner) countAndHalt(j *job) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.finished++
	if j.result.failed() {
		r.tally.failed++
	}
	if r.halted != nil || r.stopping.Err() != nil {
		return ""
	}
	status, reached := r.o.halt.reached(r.tally, j.result)
	if !reached {
		return ""
	}
	r.halted = &status
	r.stop(errHalted)
	if !r.o.halt.now {
		return fmt.Sprintf("halting after job %d: no more jobs start", j.seq)
	}
	r.endRunning()
	return fmt.Sprintf("halting after job %d: no more jobs start, and running jobs are ended", j.seq)
}

// fault notes an error of the runner's own, which ends everything.
func (r *runner) fault(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
		r.stop(err)
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

// verdict returns how the program ends.
func (r *runner) verdict(failure error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.broken != nil && errBroken(r.broken):
		return cli.Exit(cli.BrokenPipe, nil)
	case r.broken != nil:
		return r.broken
	case failure != nil:
		return failure
	case r.halted != nil:
		return exit(*r.halted)
	case r.tally.failed > 0:
		return exit(r.o.halt.status(r.tally))
	}
	return nil
}

func exit(status int) error {
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

// pause waits, unless no more jobs are to start.
func (r *runner) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.stopping.Done():
	}
}
