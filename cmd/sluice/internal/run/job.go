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
	result         result
}

// tag is what stands in front of each line of the job's output.
func (r *runner) tag(j *job) string {
	if !r.o.tag {
		return ""
	}
	return strings.Join(j.row.values, " ") + "\t"
}

// run runs a job, again while it fails and may be tried again, and lets go of its leases.
func (r *runner) run(j *job, lease core.Lease) {
	defer func() {
		r.admission.slots.give(j.slot)
		lease.Release()
		j.keyLease.Release()
	}()
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
	tag := r.tag(j)
	if r.o.lineBuffer {
		out := &byLine{o: &r.output, w: r.output.out, tag: tag}
		errs := &byLine{o: &r.output, w: r.output.err, tag: tag}
		j.result.status, j.result.signal = r.execute(j, &tee{out, &j.stdout, r.o.results != ""}, &tee{errs, &j.stderr, r.o.results != ""})
		out.flush()
		errs.flush()
		j.result.received = out.size
		return
	}
	j.result.status, j.result.signal = r.execute(j, &j.stdout, &j.stderr)
	j.result.received = j.stdout.size
}

// tee passes a running job's output on, and keeps it if --results wants it.
type tee struct {
	lines *byLine
	kept  *capture
	keep  bool
}

func (t *tee) Write(b []byte) (int, error) {
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
	show := func() {
		if !r.o.lineBuffer {
			r.output.show(r.tag(j), &j.stdout, &j.stderr)
		}
		j.stdout.close()
		j.stderr.close()
	}
	if r.order != nil {
		r.order.done(j.seq, j.stdout.held()+j.stderr.held(), show)
	} else {
		show()
	}
}
