package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// job is one row of the input, its program and its result.
type job struct {
	seq  int
	row  row
	slot int // while it runs
	try  int // from 1

	key   string
	first <-chan struct{} // closed when the job is the first in the line of its key

	turn    <-chan struct{} // closed when the job before has printed
	printed chan struct{}   // closed when this one has

	command        []string
	stdout, stderr *stream
	result         result // of the last try
	counted        bool   // there is no further try
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
	started := sync.OnceFunc(func() { <-r.ahead })
	defer started()
	for {
		if err := r.run(j, started); err != nil && r.stopping.Err() == nil {
			r.fault(err)
		}
		if j.counted || !r.pause(r.o.retryDelay) { // the job holds no permit during the pause
			break
		}
	}
	if j.try > 0 && !j.counted {
		r.count(j) // with what its last try has printed
	}
	<-j.turn
	r.show(j)
	if r.o.keepOrder {
		<-r.unshown
	}
}

// run runs a job once. If there is a limit per key, it waits until the job is the first in the line of its key. Then it
// waits until the pool starts the job, and calls started.
//
// It takes the permit of the key when the job starts. If it took the permit before the wait for the pool, the next permit
// could be available at the end of that wait, and the next job of the key would follow immediately.
func (r *runner) run(j *job, started func()) error {
	if r.keys != nil {
		if j.try > 0 {
			j.first = r.keys.join(j.key, true)
		}
		<-j.first
		before := started
		started = sync.OnceFunc(func() {
			r.keys.leave(j.key)
			before()
		})
		defer started()
		if err := r.keys.wait(r.stopping, j.key); err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	err := r.pool.Submit(r.stopping, func(context.Context) error {
		defer close(ended)
		if r.keys != nil {
			defer r.keys.take(r.stopping, j.key).Release() //nolint:contextcheck // the wait ends with the run, not with the pool
		}
		started()
		j.slot = r.slots.take()
		defer r.slots.give(j.slot)
		r.openStreams(j)
		r.runOnce(j)
		if j.result.failed() && j.try < r.o.tries && r.stopping.Err() == nil {
			return nil
		}
		r.count(j)
		select {
		case <-j.turn:
			r.show(j) // in the pool, so that a slow reader of the output slows the jobs down
		default:
		}
		return nil
	})
	if err == nil {
		<-ended
	}
	return err
}

// openStreams makes the streams of a try. Lines that pass as they come go to the same streams in all tries.
func (r *runner) openStreams(j *job) {
	if j.stdout != nil {
		if r.o.lineBuffer {
			return
		}
		j.stdout.drop()
		j.stderr.drop()
	}
	tag := r.tag(j)
	j.stdout = &stream{output: &r.output, w: r.output.out, tag: tag}
	j.stderr = &stream{output: &r.output, w: r.output.err, tag: tag}
	switch {
	case !r.o.lineBuffer:
	case !r.o.keepOrder:
		j.pass()
	default:
		r.ends.Go(func() {
			select {
			case <-j.turn:
				j.pass()
			case <-j.printed:
			}
		})
	}
}

// pass passes the job's lines on as they come.
func (j *job) pass() {
	j.stdout.pass()
	j.stderr.pass()
}

// runOnce runs the job's program.
func (r *runner) runOnce(j *job) {
	j.try++
	j.command = r.template.expand(j.row, j.seq, j.slot)
	before, start := j.stdout.written(), time.Now()
	status, signal := r.execute(j)
	j.result = result{start: start, took: time.Since(start), received: j.stdout.written() - before, status: status, signal: signal}
	if r.o.lineBuffer {
		j.stdout.endLine()
		j.stderr.endLine()
	}
}

const notFound, notAllowed = 127, 126 // as in shells

func (r *runner) execute(j *job) (status, signal int) {
	p, err := r.start(j)
	if err != nil {
		_, _ = fmt.Fprintf(j.stderr, "sluice run: %s: %s\n", j.command[0], explain(err))
		if errors.Is(err, fs.ErrPermission) {
			return notAllowed, 0
		}
		return notFound, 0
	}
	defer r.running.remove(p)
	if !r.running.add(p) {
		r.ends.Go(p.end)
	}
	late := make(chan struct{})
	if r.o.timeout > 0 {
		t := time.AfterFunc(r.o.timeout, func() {
			r.ends.Go(p.end)
			r.tell(fmt.Sprintf("job %d took longer than %v and was ended: %s", j.seq, r.o.timeout, quote(j.command)))
			close(late)
		})
		defer func() {
			if !t.Stop() {
				<-late // so that the program waits for the end of the group
			}
		}()
	}
	state, err := p.wait()
	if err != nil {
		_, _ = fmt.Fprintf(j.stderr, "sluice run: %v\n", err)
		return notFound, 0
	}
	status, signal = group.Ending(state)
	select {
	case <-late:
		return -1, signal
	default:
		return status, signal
	}
}

// start starts a job's program. If the machine has no room for one more program, start waits until it has, and so do all
// later starts. It tries again every few milliseconds, because another program may free the room.
func (r *runner) start(j *job) (*process, error) {
	r.starting.RLock()
	p, err := start(j, r.null, &r.late)
	r.starting.RUnlock()
	if !noRoom(err) {
		return p, err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	const look = 10 * time.Millisecond
	for {
		alone := r.running.len() == 0
		if p, err = start(j, r.null, &r.late); !noRoom(err) || alone || r.stopping.Err() != nil {
			return p, err
		}
		r.pause(look)
	}
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
	if r.o.lineBuffer {
		j.pass()
	} else {
		r.output.show(j.stdout, j.stderr)
	}
	if r.output.intact() {
		r.fault(r.log.add(j.seq, j.result, quote(j.command)))
	}
}
