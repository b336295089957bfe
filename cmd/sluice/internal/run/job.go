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
	held admitted

	command        []string
	stdout, stderr *stream
	result         result
}

func (r *runner) newJob(seq int, in row) *job {
	j := &job{seq: seq, row: in}
	if r.o.limited() {
		j.key = expandWord(r.o.key, in, seq, 0)
	}
	return j
}

// tag returns what stands in front of each line of the job's output.
func (r *runner) tag(j *job) string {
	switch {
	case r.o.tagWord != nil:
		return expandWord(r.o.tagWord, j.row, j.seq, j.held.slot) + "\t"
	case r.o.tag:
		return strings.Join(j.row.values, " ") + "\t"
	}
	return ""
}

// run runs a job, again while it fails and has tries left, and then gives back what it holds.
func (r *runner) run(j *job, held admitted) {
	j.held = held
	defer func() { r.admission.release(j.held) }()
	for try := 1; ; try++ {
		r.openStreams(j)
		r.try(j)
		if !j.result.failed() || try >= r.o.tries || !r.again(j) {
			break
		}
	}
	r.ended(j)
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
		return
	case r.order == nil:
		j.pass()
	default:
		r.order.begins(j.seq, j.pass)
	}
	if r.o.results != "" {
		j.stdout.all, j.stderr.all = new(capture), new(capture)
	}
}

// pass passes the job's lines on as they come.
func (j *job) pass() {
	j.stdout.pass()
	j.stderr.pass()
}

// again waits until the next try may start; false: no more jobs are to start. Meanwhile the job holds nothing.
func (r *runner) again(j *job) bool {
	r.admission.release(j.held)
	j.held = admitted{}
	if r.o.retryDelay > 0 {
		t := time.NewTimer(r.o.retryDelay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.stopping.Done():
		}
	}
	var p *place
	if keys := r.admission.keys; keys != nil {
		p = keys.rejoin(j.key)
	}
	held, err := r.admission.admit(r.stopping, p)
	j.held = held
	return err == nil
}

// try runs the job's program once.
func (r *runner) try(j *job) {
	j.command = r.template.expand(j.row, j.seq, j.held.slot)
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
	path, err := exec.LookPath(j.command[0])
	var p *process
	if err == nil || errors.Is(err, exec.ErrDot) {
		p, err = r.start(path, j)
	}
	if err != nil {
		_, _ = fmt.Fprintf(j.stderr, "sluice run: %s: %s\n", j.command[0], explain(err))
		if errors.Is(err, fs.ErrPermission) {
			return notAllowed, 0
		}
		return notFound, 0
	}
	defer r.running.remove(p)
	if !r.running.add(p) {
		r.ending(p.end)
	}
	late := make(chan struct{})
	if r.o.timeout > 0 {
		t := time.AfterFunc(r.o.timeout, func() {
			r.ending(p.end)
			r.tell(fmt.Sprintf("job %d takes longer than %v, and is ended: %s", j.seq, r.o.timeout, quote(j.command)))
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
func (r *runner) start(path string, j *job) (*process, error) {
	r.starting.RLock()
	p, err := start(path, j, r.null, &r.late)
	r.starting.RUnlock()
	if !noRoom(err) {
		return p, err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	for {
		p, err = start(path, j, r.null, &r.late)
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
		return "no such program (the command runs without a shell: write it as words, or sh -c '...')"
	}
	return err.Error()
}

// ended shows, logs and counts a job that has ended. The joblog comes last: what it calls done has been printed and
// kept.
func (r *runner) ended(j *job) {
	lost := r.results.keep(j)
	if lost != nil {
		j.result.lost = true
		r.fault(lost)
	}
	r.count(j)
	finish := func() {
		if r.show(j) && lost == nil {
			r.fault(r.log.add(j.seq, j.result, quote(j.command)))
		}
	}
	if r.order == nil {
		finish()
		return
	}
	r.order.done(j.seq, j.stdout.held()+j.stderr.held(), finish)
}

// show prints what the job has printed, and reports whether all of it is out.
func (r *runner) show(j *job) bool {
	if !r.o.lineBuffer {
		return r.output.show(j.stdout, j.stderr)
	}
	j.pass()
	j.stdout.close()
	j.stderr.close()
	return r.output.intact()
}
