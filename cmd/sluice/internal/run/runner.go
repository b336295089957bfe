package run

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// runner reads the input, runs a job for each row, and waits for their ends.
type runner struct {
	o         options
	template  template
	admission *admission
	null      *os.File
	output    output
	order     *sequence // nil: jobs print when they end
	log       *joblog   // nil: none
	skip      map[int]bool
	results   results
	bar       *bar         // nil: none
	starting  sync.RWMutex // locked while the machine has no room for one more program
	*lifecycle

	mu     sync.Mutex // guards the fields below
	tally  tally
	halted *int  // the exit status after --halt; nil: not halted
	broken error // what ended everything
}

// errHalted is why no more jobs start after --halt.
var errHalted = errors.New("halted")

// runAll runs a job for each row.
func (r *runner) runAll(rs rows) error {
	failure := r.enterAll(rs)
	r.finish(func() {
		if r.order != nil {
			r.order.flush()
		}
	}, r.o.lineBuffer)
	return failure
}

// enterAll lets a job wait for its start for each row, until there are no more rows or no more jobs are to start.
func (r *runner) enterAll(rs rows) error {
	seq := 0
	for next := range r.read(rs) {
		if next.err != nil {
			return next.err
		}
		seq++
		if r.skip[seq] {
			if r.order != nil {
				r.order.done(seq, 0, func() {})
			}
			r.bar.add()
			continue
		}
		if r.order != nil {
			r.order.wait(r.stopping)
		}
		if err := r.enter(r.newJob(seq, next.row)); err != nil {
			if r.stopping.Err() == nil {
				r.fault(err)
			}
			return nil
		}
	}
	return nil
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

// enter starts a job when it is admitted: now, or, if its key may hold it up, in a goroutine of its own.
func (r *runner) enter(j *job) error {
	if r.admission.keys == nil {
		held, err := r.admission.admit(r.stopping, nil)
		if err == nil {
			r.jobs.Go(func() { r.run(j, held) })
		}
		return err
	}
	p, err := r.admission.keys.join(r.stopping, j.key)
	if err != nil {
		return err
	}
	r.jobs.Go(func() {
		held, err := r.admission.admit(r.stopping, p)
		switch {
		case err == nil:
			r.run(j, held)
		case r.stopping.Err() == nil:
			r.fault(err)
		}
	})
	return nil
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
	text := fmt.Sprintf("halting after job %d: no more jobs start", j.seq)
	if r.o.halt.now {
		r.endRunning()
		text += ", and those that run are ended"
	}
	return text
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
		j := r.newJob(seq, row)
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
