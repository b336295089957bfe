package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
	"github.com/sluice-go/sluice/core"
)

// job is one row of the input and what became of it.
type job struct {
	seq      int
	row      row
	key      string
	keyLease core.Lease    // of the limit per key
	started  chan struct{} // closed when it has, or is not to; nil without a limit per key
	slot     int

	command        []string
	stdout, stderr capture
	lines          [2]liner // where lines go as they come; nil: they don't
	turn           *turn    // nil: the order does not matter to them
	result         result
}

// tag is what stands in front of each line of the job's output.
func (r *runner) tag(j *job) string {
	if !r.o.tag {
		return ""
	}
	return strings.Join(j.row.values, " ") + "\t"
}

// passLines lets a job's lines out as they come, in their turn if the order matters.
func (r *runner) passLines(j *job) {
	out, errs := &byLine{o: &r.output, w: r.output.out, tag: r.tag(j)}, &byLine{o: &r.output, w: r.output.err, tag: r.tag(j)}
	j.lines = [2]liner{out, errs}
	if r.order != nil {
		j.turn = newTurn(out, errs)
		j.lines = [2]liner{&j.turn.streams[0], &j.turn.streams[1]}
		r.order.begins(j.seq, j.turn.begin)
	}
}

// run runs a job, again while it fails and may be tried again, and lets go of its leases.
func (r *runner) run(j *job, lease core.Lease) {
	defer func() {
		r.admission.slots.give(j.slot)
		lease.Release()
		j.keyLease.Release()
	}()
	if r.o.lineBuffer {
		r.passLines(j)
	}
	for try := 1; ; try++ {
		r.try(j)
		if !j.result.failed() || try >= r.o.tries || r.stopping.Err() != nil {
			break
		}
		next, ok := r.again(j, lease)
		if !ok {
			break // the last try was this one
		}
		lease = next
		j.stdout.close()
		j.stderr.close()
	}
	r.ended(j)
}

// again waits for the next try's delay and start, by its key's limit too: a slot that only waits is somebody else's.
func (r *runner) again(j *job, lease core.Lease) (core.Lease, bool) {
	r.admission.slots.give(j.slot)
	lease.Release()
	j.keyLease.Release()
	defer func() { j.slot = r.admission.slots.take() }()
	if r.o.delay > 0 {
		t := time.NewTimer(r.o.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.stopping.Done():
			return core.Lease{}, false
		}
	}
	if r.lanes != nil {
		var err error
		if j.keyLease, err = r.lanes.keyed.Acquire(r.stopping, j.key, 1); err != nil {
			return core.Lease{}, false
		}
	}
	next, err := r.admission.wait(r.stopping)
	return next, err == nil
}

// try runs the job's program once.
func (r *runner) try(j *job) {
	j.command = r.template.expand(j.row, j.seq, j.slot)
	j.result = result{begun: time.Now()}
	defer func() { j.result.took = time.Since(j.result.begun) }()
	if r.o.lineBuffer {
		out := &tee{lines: j.lines[0], kept: &j.stdout, keep: r.o.results != ""}
		errs := &tee{lines: j.lines[1], kept: &j.stderr, keep: r.o.results != ""}
		j.result.status, j.result.signal = r.execute(j, out, errs)
		out.lines.flush()
		errs.lines.flush()
		j.result.received = out.size
		return
	}
	j.result.status, j.result.signal = r.execute(j, &j.stdout, &j.stderr)
	j.result.received = j.stdout.size
}

// tee passes a running job's output on, and keeps it if --results wants it.
type tee struct {
	lines liner
	kept  *capture
	keep  bool
	size  int64
}

func (t *tee) Write(b []byte) (int, error) {
	t.size += int64(len(b))
	if t.keep {
		_, _ = t.kept.Write(b)
	}
	return t.lines.Write(b)
}

const notFound, notAllowed = 127, 126 // as shells have it

func (r *runner) execute(j *job, stdout, stderr writer) (status, signal int) {
	path, err := r.programs.find(j.command[0])
	var p *process
	if err == nil {
		p, err = r.start(path, j.command, stdout, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "sluice run: %s: %s\n", j.command[0], explain(err))
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
		_, _ = fmt.Fprintf(stderr, "sluice run: %v\n", err)
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

// start starts a program. Where the machine has no room for one more, it waits until one of those that run ends, and
// so do all that come after it.
func (r *runner) start(path string, command []string, stdout, stderr writer) (*process, error) {
	r.starting.RLock()
	p, err := start(path, command, r.null, stdout, stderr)
	r.starting.RUnlock()
	if !noRoom(err) {
		return p, err
	}
	r.starting.Lock()
	defer r.starting.Unlock()
	for {
		p, err = start(path, command, r.null, stdout, stderr)
		if !noRoom(err) || !r.running.waitForEnd(r.stopping) {
			return p, err
		}
	}
}

type writer = interface{ Write(b []byte) (int, error) }

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

// ended shows and counts a job that has ended.
func (r *runner) ended(j *job) {
	if r.log != nil {
		r.fault(r.log.add(j.seq, j.result, quote(j.command)))
	}
	if r.o.results != "" {
		r.fault(results{r.o.results}.keep(j, &j.stdout, &j.stderr))
	}
	r.count(j)
	show := func() { r.output.show(r.tag(j), &j.stdout, &j.stderr) }
	held := j.stdout.held() + j.stderr.held()
	switch {
	case j.turn != nil:
		show, held = j.turn.begin, j.turn.held()
	case r.o.lineBuffer:
		show = func() {}
	}
	if r.o.lineBuffer {
		j.stdout.close() // it is in --results
		j.stderr.close()
	}
	if r.order != nil {
		r.order.done(j.seq, held, show)
	} else {
		show()
	}
}
