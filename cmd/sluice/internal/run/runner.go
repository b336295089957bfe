package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// runner starts the jobs and waits for their ends.
type runner struct {
	o         options
	template  template
	admission *admission
	lanes     *lanes // nil: no limit per key
	programs  programs
	null      *os.File
	output    output
	order     *sequence // nil: output comes as jobs end
	log       *joblog   // nil: none
	skip      map[int]bool
	bar       bar
	jobs      sync.WaitGroup
	starting  sync.RWMutex // locked while there is no room for one more program
	running   running
	ends      sync.WaitGroup // of what ends the running ones

	stopping context.Context //nolint:containedctx // ends when no more jobs are to start
	stop     context.CancelCauseFunc

	mu       sync.Mutex // guards what follows
	begun    int
	finished int
	failed   int
	all      int // jobs in all, where --halt asks for a percentage
	status   int // that ends it all, if halted
	halted   bool
	broken   error // what ended it all
}

// errEnough is why no more jobs start after --halt soon.
var errEnough = errors.New("enough jobs have failed")

// runAll runs a job for each row.
func (r *runner) runAll(rs rows) error {
	var dispatch sync.WaitGroup
	if r.lanes != nil {
		dispatch.Go(func() {
			for j := range r.lanes.ready {
				if !r.admit(j) {
					j.keyLease.Release()
				}
				close(j.started)
			}
		})
	}
	failure := r.enterAll(rs)
	if r.lanes != nil {
		r.lanes.close()
		dispatch.Wait()
	}
	r.jobs.Wait()
	if r.order != nil {
		r.order.flush()
	}
	return failure
}

// enterAll lets a job wait for its start for each row, until there are no more, or there are to be no more.
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
		} else if !r.enter(&job{seq: seq, row: next.row}) {
			return nil
		}
	}
	return nil
}

// read yields the rows until there are to be no more jobs, even where the input then stands still: whoever reads it
// is left behind.
func (r *runner) read(rs rows) iter.Seq[rowOrError] {
	type element = rowOrError
	input := make(chan element, 64)
	go func() {
		defer close(input)
		for row, err := range rs {
			select {
			case input <- element{row, err}:
			case <-r.stopping.Done():
				return
			}
		}
	}()
	return func(yield func(element) bool) {
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

// enter lets a job wait for its start; false: there are to be no more.
func (r *runner) enter(j *job) bool {
	if r.order != nil {
		r.order.wait(r.stopping)
	}
	if r.lanes == nil {
		return r.admit(j)
	}
	j.started = make(chan struct{})
	j.key = expandWord(r.o.key, j.row, j.seq, 0)
	return r.lanes.enter(r.stopping, j)
}

// admit starts a job when its turn comes.
func (r *runner) admit(j *job) bool {
	lease, err := r.admission.wait(r.stopping)
	if err != nil {
		if r.stopping.Err() == nil {
			r.fault(err)
		}
		return false
	}
	if r.lanes != nil {
		r.lanes.takeAnew(j)
	}
	j.slot = r.admission.slots.take()
	r.mu.Lock()
	r.begun++
	r.mu.Unlock()
	r.jobs.Go(func() { r.run(j, lease) })
	return true
}

// count counts a job that has ended, and halts if that is one failure too many.
func (r *runner) count(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished++
	r.bar.add()
	if !j.result.failed() {
		return
	}
	r.failed++
	if r.halted {
		return
	}
	status, reached := r.o.halt.reached(r.failed, r.all, j.result)
	if !reached {
		return
	}
	r.halted, r.status = true, status
	r.stop(errEnough)
	if r.o.halt.now {
		r.endRunning()
	}
}

// fault notes an error of the runner's own, which ends it all.
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
		if _, err := fmt.Fprintln(w, r.tag(&job{row: row})+quote(r.template.expand(row, seq, 1))); err != nil {
			return err
		}
	}
	return nil
}

// verdict is how the program ends.
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
	case r.halted:
		return exit(r.status)
	case r.failed > 0:
		return exit(r.o.halt.status(r.failed, r.all))
	}
	return nil
}

func exit(status int) error {
	if status == 0 {
		return nil
	}
	return cli.Exit(status, nil)
}
