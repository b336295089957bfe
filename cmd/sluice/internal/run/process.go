package run

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// process is a job's program, in a process group of its own.
type process struct {
	p     *os.Process
	pumps [2]pump
}

// pump copies stdout or stderr of a program to its stream, as long as any program holds it open, for example a child that
// outlives the program.
type pump struct {
	r      *os.File
	s      *stream
	caught chan struct{} // closed when the stream has all that the program has printed
}

// start starts a job's program, which reads nothing and prints to the job's streams. late counts the pumps.
func start(j *job, null *os.File, late *sync.WaitGroup) (_ *process, err error) {
	path := j.command[0]
	if filepath.Base(path) == path {
		if path, err = exec.LookPath(path); err != nil && !errors.Is(err, exec.ErrDot) { // ErrDot: the user's PATH contains it
			return nil, err
		}
	}
	var from, to [2]*os.File
	defer func() {
		closeAll(to)
		if err != nil {
			closeAll(from)
		}
	}()
	for i := range to {
		if from[i], to[i], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	p := new(process)
	p.p, err = os.StartProcess(path, j.command, &os.ProcAttr{Files: []*os.File{null, to[0], to[1]}, Sys: group.Own()})
	if err != nil {
		return nil, err
	}
	for i, s := range []*stream{j.stdout, j.stderr} {
		p.pumps[i] = newPump(from[i], s)
		late.Go(p.pumps[i].run)
	}
	return p, nil
}

func closeAll(files [2]*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// noRoom reports whether a start failed because files, processes or memory were exhausted. Another program may free some
// when it ends. A child gets EBADF if it moves its files to numbers above the limit.
func noRoom(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func newPump(r *os.File, s *stream) pump { return pump{r: r, s: s, caught: make(chan struct{})} }

// run copies until no program holds the other end of the pipe.
func (p *pump) run() {
	b := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(b)
	caught := sync.OnceFunc(func() { close(p.caught) })
	defer caught()
	for {
		n, err := p.r.Read(b[:])
		_, _ = p.s.Write(b[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = p.catchUp(b[:])
			caught()
		}
		if err != nil {
			break
		}
	}
	_ = p.r.Close()
	p.s.end()
}

const (
	pipeSize  = 64 << 10              // what a pipe holds
	lateGrace = 50 * time.Millisecond // how long a child that outlives its program may print nothing and still be waited for
)

// catchUp copies the content of the pipe after the program has ended, and output that comes soon after. If a child keeps
// printing, catchUp returns once it has copied as much as the pipe can hold, which includes all output of the program.
func (p *pump) catchUp(b []byte) error {
	defer func() { _ = p.r.SetReadDeadline(time.Time{}) }()
	for left := pipeSize; left > 0; {
		_ = p.r.SetReadDeadline(time.Now().Add(lateGrace))
		n, err := p.r.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) { // on a busy machine, possibly before the read started
			_ = p.r.SetReadDeadline(time.Time{})
			n, err = readNow(p.r, b)
		}
		if n == 0 || err != nil {
			return err
		}
		_, _ = p.s.Write(b[:n])
		left -= n
	}
	return nil
}

// wait waits for the end of the program, and until the streams have all its output; they may pass it on only as fast as the
// output is read. A child may hold the pipes open longer, and print later.
func (p *process) wait() (*os.ProcessState, error) {
	state, err := p.p.Wait()
	for i := range p.pumps {
		p.pumps[i].catch()
	}
	for i := range p.pumps {
		<-p.pumps[i].caught
	}
	return state, err
}

// catch makes the pump catch up.
func (p *pump) catch() {
	select {
	case <-p.caught: // usually the output has ended
	default:
		_ = p.r.SetReadDeadline(time.Unix(1, 0)) // wakes a blocked read; without deadlines, it ends with the output
	}
}

// end ends the program and all its children.
func (p *process) end() { group.End(p.p) }
