package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
	"github.com/sluice-go/sluice/core"
)

// job is one row of the input, its program and its result.
type job struct {
	seq  int
	row  row
	slot int // while it runs
	try  int // number of the try, from 1

	started func() // called when the first try starts
	key     string
	first   <-chan struct{} // closed when the job is the first in the line of its key
	leave   func()          // leaves that line

	turn    <-chan struct{} // closed when the job before has printed
	printed chan struct{}   // closed when this one has

	command        []string
	stdout, stderr *stream
	result         result // result of the last try
	over           bool   // there is no further try
	shown          bool
}

// tag returns the text in front of each line of the job's output.
func (r *runner) tag(j *job) string {
	if r.o.tag {
		return strings.Join(j.row.values, " ") + "\t"
	}
	return ""
}

// live runs a job until its last try, and then prints its output in its turn.
func (r *runner) live(j *job) {
	defer close(j.printed)
	defer j.started()
	j.stdout = &stream{output: &r.output, w: r.output.out, tag: r.tag(j), lines: r.o.lineBuffer}
	j.stderr = &stream{output: &r.output, w: r.output.err, tag: r.tag(j), lines: r.o.lineBuffer}
	for {
		if err := r.run(j); err != nil && r.stopping.Err() == nil {
			r.fault(err)
		}
		if j.over || !cli.Sleep(r.stopping, time.Duration(r.o.retryDelay)) { // the job holds no permit during the pause
			break
		}
	}
	if j.try > 0 && !j.over {
		r.count(j) // with what its last try has printed
	}
	<-j.turn
	r.show(j)
	if r.o.keepOrder {
		<-r.unshown
	}
}

// run runs a job once. If there is a limit per key, it waits until the job is the first in the line of its key, and takes a
// permit of the key. Then it waits until the pool starts the job.
func (r *runner) run(j *job) error {
	var permit core.Lease // lease of the key's limiter
	if r.keys != nil {
		if j.try > 0 {
			j.first, j.leave = r.keys.join(j.key)
		}
		defer j.leave()
		<-j.first
		var err error
		if permit, err = r.keys.take(r.stopping, j.key); err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	err := r.pool.Submit(r.stopping, func(context.Context) error {
		defer close(ended)
		if r.keys != nil {
			defer r.keys.restart(j.key, permit).Release()
		}
		j.leave()
		j.started()
		r.try(j)
		return nil
	})
	if err != nil {
		permit.Refund()
		return err
	}
	if r.o.lineBuffer {
		select {
		case <-j.turn:
			r.output.show(j.stdout, j.stderr)
		case <-ended:
		}
	}
	<-ended
	return nil
}

// try runs the job's program. If that was the last try and it is the job's turn, the job prints before it returns its permits,
// so that a slow reader of the output slows the jobs down.
func (r *runner) try(j *job) {
	if r.killing.Err() != nil {
		return
	}
	j.slot = r.slots.take()
	defer r.slots.give(j.slot)
	j.try++
	j.stdout.start()
	j.stderr.start()
	j.command = r.template.expand(j.row, j.seq, j.slot)
	start := time.Now()
	status, signal := r.execute(j)
	j.result = result{start: start, took: time.Since(start), received: j.stdout.size, status: status, signal: signal}
	j.stdout.end()
	j.stderr.end()
	if j.result.failed() && j.try < r.o.tries && r.stopping.Err() == nil {
		return
	}
	r.count(j)
	select {
	case <-j.turn:
		r.show(j)
	default:
	}
}

// findProgram looks for the program of all jobs before the first of them starts. Otherwise each job would fail with the same message.
func (r *runner) findProgram() error {
	if r.program == "" {
		return nil
	}
	name := r.program
	r.program = ""
	if _, err := cli.LookPath(name); err != nil {
		return cli.Exit(cli.StatusOfStart(err), fmt.Errorf("%s: %s", name, explain(err)))
	}
	return nil
}

func (r *runner) execute(j *job) (status, signal int) {
	p, err := r.start(j)
	if err != nil {
		_, _ = fmt.Fprintf(j.stderr, "sluice run: %s: %s\n", j.command[0], explain(err))
		return cli.StatusOfStart(err), 0
	}
	ctx, cancel := r.killing, context.CancelFunc(func() {})
	if r.o.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.o.timeout))
	}
	defer cancel()
	state, killed, err := p.wait(ctx)
	r.running.remove(p)
	p.pumps.Wait()
	if err != nil {
		_, _ = fmt.Fprintf(j.stderr, "sluice run: %v\n", err)
		return cli.NotFound, 0
	}
	status, signal = group.Ending(state)
	if killed && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.say(fmt.Sprintf("job %d took longer than %v and was ended: %s", j.seq, time.Duration(r.o.timeout), quote(j.command)))
		status = timedOut
	}
	return status, signal
}

// start starts a job's program. If the machine has no room for one more program, start tries again every few milliseconds,
// because another program may free the room, and for a second after no job runs any more.
func (r *runner) start(j *job) (*process, error) {
	p, err := r.running.start(j, r.null)
	if !noRoom(err) {
		return p, err
	}
	r.crowded.Lock()
	defer r.crowded.Unlock()
	for alone := 0; alone < 100 && noRoom(err) && cli.Sleep(r.stopping, 10*time.Millisecond); alone++ {
		if r.running.len() > 0 {
			alone = 0
		}
		p, err = r.running.start(j, r.null)
	}
	return p, err
}

func explain(err error) string {
	if notFound, ok := errors.AsType[*exec.Error](err); ok {
		err = notFound.Err
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "no such program (the command runs without a shell; write it as words, or use sh -c '...')"
	}
	return err.Error()
}

// show prints the job's output and then logs the job, so that the output of each job in the joblog has been printed.
func (r *runner) show(j *job) {
	if j.try == 0 || j.shown {
		return
	}
	j.shown = true
	if r.output.show(j.stdout, j.stderr) {
		r.fault(r.log.add(j.seq, j.result, quote(j.command)))
	}
}
