package wait

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
	"github.com/sluice-go/sluice/redislimit"
)

// under runs the command until ctx, the context of the lease, ends. It forwards signals to the command's process group.
func (o *options) under(ctx context.Context, path string, signals <-chan os.Signal) error {
	attr, back := group.Foreground()
	defer back()
	dieTogether(attr)
	p, ended, err := start(path, o.command, attr)
	if err != nil {
		return cli.Exit(statusOfStart(err), err)
	}
	for {
		select {
		case e := <-ended:
			if e.err != nil {
				return e.err
			}
			if status, by := group.Ending(e.state); by != 0 {
				return cli.Exit(bySignal+by, nil)
			} else if status != 0 {
				return cli.Exit(status, nil)
			}
			return nil
		case s := <-signals:
			group.Signal(p, s)
		case <-ctx.Done():
			group.End(p)
			<-ended
			if errors.Is(context.Cause(ctx), redislimit.ErrLeaseLost) {
				return errors.New("the permit was lost because Redis did not renew it in time; the command was ended")
			}
			return context.Cause(ctx)
		}
	}
}

// ending is how a program ended.
type ending struct {
	state *os.ProcessState
	err   error
}

// start starts a program that inherits stdin, stdout and stderr.
func start(path string, command []string, attr *syscall.SysProcAttr) (*os.Process, <-chan ending, error) {
	type start struct {
		program *os.Process
		err     error
	}
	started, ended := make(chan start, 1), make(chan ending, 1)
	go func() {
		runtime.LockOSThread() // for dieTogether; the thread ends after the program
		p, err := os.StartProcess(path, command, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr})
		started <- start{p, err}
		if err == nil {
			state, err := p.Wait()
			ended <- ending{state, err}
		}
	}()
	s := <-started
	return s.program, ended, s.err
}
