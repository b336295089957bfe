package run

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// process is a job's program, in a process group of its own.
type process struct {
	p     *os.Process
	pipes [2]*os.File // that the output comes from
	w     sync.WaitGroup
}

// start starts a program that reads nothing and whose output goes to stdout and stderr.
func start(path string, argv []string, null *os.File, stdout, stderr io.Writer) (_ *process, err error) {
	p := new(process)
	var ends [2]*os.File
	defer func() {
		for i := range ends {
			if ends[i] != nil {
				_ = ends[i].Close()
			}
			if err != nil && p.pipes[i] != nil {
				_ = p.pipes[i].Close()
			}
		}
	}()
	for i := range ends {
		if p.pipes[i], ends[i], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	p.p, err = os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{null, ends[0], ends[1]}, Sys: group.Own()})
	if err != nil {
		return nil, err
	}
	for i, w := range []io.Writer{stdout, stderr} {
		p.w.Go(func() { pump(w, p.pipes[i]) })
	}
	return p, nil
}

// noRoom reports whether a start failed for want of files, processes or memory, which the end of another gives back.
// EBADF is what a child gets that moves its files to numbers beyond the limit.
func noRoom(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// pump copies until the end, also beyond an error of w, so that the program is not held up.
func pump(w io.Writer, r *os.File) {
	b := buffers.Get().(*[32 << 10]byte) //nolint:forcetypeassert // it holds nothing else
	defer buffers.Put(b)
	for {
		n, err := r.Read(b[:])
		if n > 0 && w != nil {
			if _, err := w.Write(b[:n]); err != nil {
				w = nil
			}
		}
		if err != nil {
			return
		}
	}
}

// lateOutput is how long output is waited for when the program has ended, and some other has kept its end of the pipe.
const lateOutput = 100 * time.Millisecond

// wait waits for the end of the program, and of its output.
func (p *process) wait() (*os.ProcessState, error) {
	state, err := p.p.Wait()
	late := time.Now().Add(lateOutput)
	for _, r := range p.pipes {
		_ = r.SetReadDeadline(late) // where there are no deadlines, the end is waited for
	}
	p.w.Wait()
	for _, r := range p.pipes {
		_ = r.Close()
	}
	return state, err
}

// end ends the program with all that it has started.
func (p *process) end() { group.End(p.p) }

// programs finds programs as a shell does, and remembers where.
type programs struct {
	mu    sync.Mutex
	paths map[string]string
}

func (ps *programs) find(name string) (string, error) {
	ps.mu.Lock()
	path, ok := ps.paths[name]
	ps.mu.Unlock()
	if ok {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.paths == nil || len(ps.paths) >= 1000 { // programs named by the input may be many
		ps.paths = make(map[string]string)
	}
	ps.paths[name] = path
	return path, nil
}
