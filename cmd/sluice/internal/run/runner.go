package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// runner reads the input, runs a job for each row, and waits until the last try of each has ended, its output is shown and its
// line is in the joblog.
//
// A run ends early in three steps: after stop, no more jobs start, and a blocked reader of the input is abandoned; kill ends the
// running jobs; and when all their groups are gone, another signal ends the program even if some output has not been read.
type runner struct {
	o        options
	template template
	program  string // program of all jobs, until it has been found; "" if there is none, or it has been found
	key      word
	pool     *worker.Pool
	keys     *keys // nil means no limit per key
	slots    slots
	null     *os.File
	output   output
	log      *joblog // nil means none
	skip     map[int]bool
	bar      *bar          // nil means none
	ahead    chan struct{} // one element for each job that has not started
	unshown  chan struct{} // with --keep-order, one element for each job that has not printed
	crowded  sync.Mutex    // held by the job that waits until the machine has room for one more program
	running  running

	stopping context.Context         // its cause is the error with which the program ends
	stop     context.CancelCauseFunc // only the first call has an effect
	killing  context.Context
	kill     context.CancelFunc

	jobs, messages sync.WaitGroup

	succeeded, failed atomic.Int64 // jobs
	skipped           int          // jobs that are in the joblog
	all               int          // jobs; 0: unknown
}

const (
	maxAhead   = 1000 // at this number of jobs that wait for their keys, no more rows are read
	maxUnshown = 1000 // at this number of jobs that wait for their turn to print, no more start
)

// errNoReader is the cause of a stop because the reader of the output is gone.
var errNoReader = cli.Exit(cli.BrokenPipe, nil)

func newRunner(ctx context.Context, o options) *runner {
	r := &runner{
		o: o, output: output{out: os.Stdout, err: os.Stderr}, running: running{all: make(map[*process]struct{})},
		skip: make(map[int]bool), ahead: make(chan struct{}, 1), unshown: make(chan struct{}, maxUnshown),
	}
	r.stopping, r.stop = context.WithCancelCause(ctx)
	r.killing, r.kill = context.WithCancel(ctx)
	r.output.failed = r.fault
	return r
}

// understand parses the words that may have replacement strings.
func (r *runner) understand(names []string) (err error) {
	if r.template, err = parseTemplate(r.o.command, names); err != nil {
		return err
	}
	if _, varies, _ := parseWord(r.o.command[0], names); !varies {
		r.program = r.o.command[0]
	}
	var varies bool
	if r.key, varies, err = parseWord(r.o.key, names); err == nil && !varies {
		return cli.Usage("--key %q is the same for all jobs; use a replacement string such as {1}, or --limit", r.o.key)
	}
	return err
}

// limit creates the pool and the limits per key.
func (r *runner) limit() error {
	limiter, err := r.o.limits.New("limit")
	if err != nil {
		return err
	}
	if r.o.jobs > 0 {
		jobs, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{Name: "jobs", PermitLimit: r.o.jobs})
		switch {
		case err != nil:
			return err
		case cli.Unlimited(r.o.limits):
			limiter = jobs
		default:
			if limiter, err = core.Chain(jobs, limiter); err != nil {
				return err
			}
		}
	}
	if r.pool, err = worker.New(worker.Options{Limiter: limiter}); err != nil || cli.Unlimited(r.o.perKey) {
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

// showBar shows the bar below the output on the terminal.
func (r *runner) showBar() {
	r.bar = newBar(r.all)
	r.output.err = r.bar.line.Above(r.output.err)
	if cli.IsTerminal(os.Stdout) {
		r.output.out = r.bar.line.Above(r.output.out)
	}
}

// startAll starts a job for each row, until there are no more rows or no more jobs are to start. Without a limit per key,
// each job waits until the job before it has started.
func (r *runner) startAll(rs rows) {
	now := make(chan struct{})
	close(now)
	turn := now
	input := r.read(rs)
	for seq := 1; ; seq++ {
		var next row
		var ok bool
		select {
		case next, ok = <-input:
		case <-r.stopping.Done():
		}
		if !ok || r.stopping.Err() != nil {
			return
		}
		if r.skip[seq] {
			r.skipped++
			r.bar.add()
			continue
		}
		if err := r.findProgram(); err != nil {
			r.stop(err)
			return
		}
		j := &job{seq: seq, row: next, turn: now, printed: make(chan struct{}), started: sync.OnceFunc(func() { <-r.ahead }), leave: func() {}}
		if r.o.keepOrder {
			if !r.put(r.unshown) {
				return
			}
			j.turn, turn = turn, j.printed
		}
		if !r.put(r.ahead) {
			return
		}
		if r.keys != nil {
			j.key = r.key.expand(j.row, j.seq, 0)
			j.first, j.leave = r.keys.join(j.key)
		}
		r.jobs.Go(func() { r.live(j) })
	}
}

// read returns a channel of the rows. The goroutine that reads them is abandoned if it is blocked when the run stops.
func (r *runner) read(rs rows) <-chan row {
	input := make(chan row, 64)
	go func() {
		defer close(input)
		for row, err := range rs {
			if err != nil {
				r.stop(err)
			}
			select {
			case input <- row:
			case <-r.stopping.Done():
				return
			}
		}
	}()
	return input
}

// put puts an element into c, unless the run stops.
func (r *runner) put(c chan<- struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	case <-r.stopping.Done():
		return false
	}
}

// count counts a job that has ended, and stops the run if --halt asks for that.
func (r *runner) count(j *job) {
	j.over = true
	r.bar.add()
	if !j.result.failed() {
		r.succeeded.Add(1)
		return
	}
	status, reached := r.o.halt.reached(int(r.failed.Add(1)), r.all, j.result)
	if !reached || r.stopping.Err() != nil {
		return
	}
	r.stop(cli.Exit(status, nil))
	text := fmt.Sprintf("halting after job %d: no more jobs start", j.seq)
	if r.o.halt.now {
		r.kill()
		text += ", and running jobs are ended"
	}
	r.say(text)
}

// fault ends the run because of an error of the runner itself.
func (r *runner) fault(err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, syscall.EPIPE):
		err = errNoReader
	case r.stopping.Err() != nil:
		r.say(err.Error())
	}
	r.stop(err)
	r.kill()
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

// summarize prints how many jobs succeeded and failed. If none has failed, or a signal has ended the run, only a terminal gets the
// summary, because cron would mail it.
func (r *runner) summarize(interrupted bool) {
	succeeded, failed := r.succeeded.Load(), r.failed.Load()
	if succeeded+failed == 0 || errors.Is(context.Cause(r.stopping), errNoReader) || (failed == 0 || interrupted) && !cli.IsTerminal(os.Stderr) {
		return
	}
	text := fmt.Sprintf("%d ok, %d failed", succeeded, failed)
	if r.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", r.skipped)
	}
	if name := strings.TrimPrefix(r.o.joblog, "+"); name != "" {
		text += "; see joblog " + name
	}
	r.output.say(text)
}

// verdict returns the error with which the program ends.
func (r *runner) verdict() error {
	if err := context.Cause(r.stopping); err != nil {
		return err
	}
	if status := r.o.halt.status(int(r.failed.Load()), r.all); status != 0 {
		return cli.Exit(status, nil)
	}
	return nil
}

// slots numbers the running jobs from 1.
type slots struct {
	mu   sync.Mutex
	free []int
	made int
}

func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		s.made++
		return s.made
	}
	slot := s.free[n-1]
	s.free = s.free[:n-1]
	return slot
}

func (s *slots) give(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, slot)
}
