package run

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// process is a job's program, in a process group of its own.
type process struct {
	p       *os.Process
	pumps   atomic.Int32  // that run
	drained chan struct{} // closed when nobody holds the other ends of the pipes any longer
}

// start starts a job's program, which reads nothing and prints to the job's streams. late counts the goroutines that
// copy its output: they go on for as long as somebody holds it open, as a child that outlives the program may.
func start(path string, j *job, null *os.File, late *sync.WaitGroup) (_ *process, err error) {
	p := &process{drained: make(chan struct{})}
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
	p.p, err = os.StartProcess(path, j.command, &os.ProcAttr{Files: []*os.File{null, to[0], to[1]}, Sys: group.Own()})
	if err != nil {
		return nil, err
	}
	p.pumps.Store(int32(len(from)))
	for i, w := range []io.Writer{j.stdout, j.stderr} {
		late.Go(func() { p.pump(w, from[i]) })
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

// noRoom reports whether a start failed for want of files, processes or memory, which the end of another gives back.
// A child gets EBADF if it moves its files to numbers beyond the limit.
func noRoom(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// pump copies r to w until its end.
func (p *process) pump(w io.Writer, r *os.File) {
	b := buffers.Get().(*[32 << 10]byte) //nolint:forcetypeassert // it holds nothing else
	defer buffers.Put(b)
	for {
		n, err := r.Read(b[:])
		_, _ = w.Write(b[:n])
		if err != nil {
			break
		}
	}
	_ = r.Close()
	if p.pumps.Add(-1) == 0 {
		close(p.drained)
	}
}

// lateOutput is how long a job waits for its output after its program has ended, if a child holds it open.
const lateOutput = 100 * time.Millisecond

// wait waits for the end of the program, and of its output.
func (p *process) wait() (*os.ProcessState, error) {
	state, err := p.p.Wait()
	late := time.NewTimer(lateOutput)
	defer late.Stop()
	select {
	case <-p.drained:
	case <-late.C:
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

// mostPrograms bounds the memory if the input names programs.
const mostPrograms = 1000

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
	if ps.paths == nil || len(ps.paths) >= mostPrograms {
		ps.paths = make(map[string]string)
	}
	ps.paths[name] = path
	return path, nil
}
