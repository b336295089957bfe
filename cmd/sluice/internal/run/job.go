package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// job is one row of the input and what became of it.
type job struct {
	seq  int
	row  row
	key  string
	slot int // while it runs
	try  int // from 1

	turn    <-chan struct{} // closed when the job before has printed
	printed chan struct{}   // closed when this one has
	ahead   <-chan struct{} // has an element for this job; nil: it need not wait for its turn

	command        []string
	stdout, stderr *stream
	result         result
}

// tag returns what stands in front of each line of the job's output.
func (r *runner) tag(j *job) string {
	if r.o.tag {
		return strings.Join(j.row.values, " ") + "\t"
	}
	return ""
}

// run runs a job once, as a task of the pool, and lets it wait for the next try if it fails and has tries left.
func (r *runner) run(j *job) {
	j.slot = r.slots.take()
	defer r.slots.give(j.slot)
	j.try++
	r.openStreams(j)
	r.runOnce(j)
	if !j.result.failed() || j.try >= r.o.tries || r.stopping.Err() != nil {
		r.ended(j)
		return
	}
	go r.again(j)
}

// again waits until the next try may start. Meanwhile the job holds nothing.
func (r *runner) again(j *job) {
	r.pause(r.o.retryDelay)
	if r.keys != nil {
		r.keys.rejoin(j.key, func() { r.enterOfKey(j) })
	} else if err := r.submit(j); err != nil {
		r.never(j, err)
	}
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
	case j.ahead == nil:
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
	j.command = r.template.expand(j.row, j.seq, j.slot)
	before := j.stdout.written()
	begun := time.Now()
	status, signal := r.execute(j)
	j.result = result{begun: begun, took: time.Since(begun), received: j.stdout.written() - before, status: status, signal: signal}
	if r.o.lineBuffer {
		j.stdout.endLine()
		j.stderr.endLine()
	}
}

const notFound, notAllowed = 127, 126 // as shells have it

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

// start starts a job's program. If the machine has no room for one more, start waits until another job ends, and so do
// all later starts.
func (r *runner) start(j *job) (*process, error) {
	r.starting.RLock()
	p, err := start(j, r.null, &r.late)
	r.starting.RUnlock()
	if !noRoom(err) {
		return p, err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	for {
		p, err = start(j, r.null, &r.late)
		if !noRoom(err) || !r.running.waitForEnd(r.stopping) {
			return p, err
		}
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

// ended counts a job that has ended, and shows and logs it when it is its turn. The joblog comes last: what it calls done
// has been printed.
func (r *runner) ended(j *job) {
	r.count(j)
	finish := func() {
		if r.show(j) {
			r.fault(r.log.add(j.seq, j.result, quote(j.command)))
		}
		r.done(j)
	}
	select {
	case <-j.turn:
		finish()
	default:
		go func() {
			<-j.turn
			finish()
		}()
	}
}

// done lets the next job print.
func (r *runner) done(j *job) {
	if j.ahead != nil {
		<-j.turn
		<-j.ahead
	}
	close(j.printed)
	r.jobs.Done()
}

// show prints what the job has printed, and reports whether all of it is out.
func (r *runner) show(j *job) bool {
	if !r.o.lineBuffer {
		return r.output.show(j.stdout, j.stderr)
	}
	j.pass()
	return r.output.intact()
}
