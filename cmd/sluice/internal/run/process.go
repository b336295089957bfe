package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
)

// process is a job's program, in a process group of its own.
type process struct {
	p     *os.Process
	pipes [2]*os.File // pipes from its stdout and stderr
	pumps sync.WaitGroup
}

// start starts a job's program, which reads nothing and prints to the job's streams.
func start(j *job, null *os.File) (_ *process, err error) {
	path := j.command[0]
	if filepath.Base(path) == path {
		if path, err = cli.LookPath(path); err != nil {
			return nil, err
		}
	}
	p := new(process)
	var to [2]*os.File
	defer func() {
		closeAll(to)
		if err != nil {
			closeAll(p.pipes)
		}
	}()
	for i := range to {
		if p.pipes[i], to[i], err = pipe(); err != nil {
			return nil, err
		}
	}
	p.p, err = os.StartProcess(path, j.command, &os.ProcAttr{Files: []*os.File{null, to[0], to[1]}, Sys: group.Own()})
	if err != nil {
		return nil, err
	}
	for i, s := range []*stream{j.stdout, j.stderr} {
		p.pumps.Go(func() { pump(p.pipes[i], s) })
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

// wait waits for the end of the program. If ctx is done first, it ends the program with all its children, and killed is true.
func (p *process) wait(ctx context.Context) (state *os.ProcessState, killed bool, err error) {
	gone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		group.End(p.p)
		close(gone)
	})
	state, err = p.p.Wait()
	if killed = !stop(); killed {
		<-gone
	}
	for _, f := range p.pipes {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // wakes a blocked read; without deadlines, it ends with the output
	}
	return state, killed, err
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

const (
	pipeSize  = 1 << 20 // the most that a pipe holds by default on Linux, after its program has enlarged it
	lateGrace = 20 * time.Millisecond
	graces    = 3 // more than one, because on a busy machine a grace may end before the read starts
)

// pump copies stdout or stderr of a program to its stream until no program holds it open, and closes it. If children outlive
// the program, pump ends after three graces, or when they have printed as much as the pipe can hold. All output of the program
// has been read when a read does not fill the buffer, because the pipe was empty then.
func pump(r *os.File, s *stream) {
	defer func() { _ = r.Close() }()
	b := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(b)
	var end time.Time // end of the program; zero while it runs
	for left, quiet := pipeSize, 0; left > 0 && quiet < graces; {
		if !end.IsZero() {
			_ = r.SetReadDeadline(time.Now().Add(lateGrace))
		}
		n, err := r.Read(b[:])
		_, _ = s.Write(b[:n])
		late := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case err != nil && !late:
			return
		case end.IsZero() && late:
			end = time.Now()
		case end.IsZero():
		case late:
			quiet++
		case n < len(b) && time.Since(end) > graces*lateGrace:
			return
		default:
			left -= n
		}
	}
}
