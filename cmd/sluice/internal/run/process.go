package run

import (
	"errors"
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
	pumps   [2]pump
	open    atomic.Int32  // pumps that have not come to their end
	drained chan struct{} // closed when nobody holds the other ends of the pipes any longer
}

// pump copies one of a program's outputs to its stream.
type pump struct {
	r             *os.File
	s             *stream
	read, written atomic.Int64 // bytes
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
	p.open.Store(int32(len(p.pumps)))
	for i, s := range []*stream{j.stdout, j.stderr} {
		p.pumps[i].r, p.pumps[i].s = from[i], s
		late.Go(func() {
			p.pumps[i].run()
			if p.open.Add(-1) == 0 {
				close(p.drained)
			}
		})
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

// run copies until nobody holds the other end of the pipe any longer.
func (p *pump) run() {
	b := buffers.Get().(*[32 << 10]byte) //nolint:forcetypeassert // it holds nothing else
	defer buffers.Put(b)
	for {
		n, err := p.r.Read(b[:])
		p.read.Add(int64(n))
		_, _ = p.s.Write(b[:n])
		p.written.Add(int64(n))
		if err != nil {
			break
		}
	}
	_ = p.r.Close()
	p.s.end()
}

// lookAtOutput is how often a job whose program has ended looks whether a child still prints.
const lookAtOutput = 50 * time.Millisecond

// pipeSize is what a pipe holds.
const pipeSize = 64 << 10

// wait waits for the end of the program, and until all that it has printed is written.
func (p *process) wait() (*os.ProcessState, error) {
	state, err := p.p.Wait()
	p.waitForOutput()
	return state, err
}

// waitForOutput returns when nobody holds the output open any longer. If a child of the program does, it returns when no
// pump is held up by a slow reader, and each has read nothing between two looks, or more than the program can have left
// in the pipe.
func (p *process) waitForOutput() {
	ticker := time.NewTicker(lookAtOutput)
	defer ticker.Stop()
	var atEnd, before [2]int64
	for look := 0; ; look++ {
		done := look > 0
		for i := range p.pumps {
			written := p.pumps[i].written.Load() // first, so that what is equal has been so
			read := p.pumps[i].read.Load()
			if look == 0 {
				atEnd[i] = read
			}
			done = done && read == written && (look > 1 && read == before[i] || read-atEnd[i] >= pipeSize)
			before[i] = read
		}
		if done {
			return
		}
		select {
		case <-p.drained:
			return
		case <-ticker.C:
		}
	}
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
