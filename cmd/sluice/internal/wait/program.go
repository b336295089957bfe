package wait

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
	"github.com/sluice-go/sluice/redislimit"
)

// under runs the command, if there is one, with stdin, stdout and stderr until ctx, the context of the lease, ends. It
// forwards signals to the command's process group.
func (o *options) under(ctx context.Context, path string, signals <-chan os.Signal) error {
	if len(o.command) == 0 {
		return nil
	}
	attr, back := group.Foreground()
	defer back()
	killWithParent(attr)
	c := &exec.Cmd{Path: path, Args: o.command, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: attr}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for killWithParent; the thread ends after the program
		err := c.Start()
		started <- err
		if err == nil {
			ended <- c.Wait()
		}
	}()
	if err := <-started; err != nil {
		return cli.Exit(cli.StatusOfStart(err), err)
	}
	for {
		select {
		case err := <-ended:
			if c.ProcessState == nil {
				return err
			}
			status, by := group.Ending(c.ProcessState)
			if by != 0 {
				status = cli.StatusOf(syscall.Signal(by))
			}
			if status != 0 {
				return cli.Exit(status, nil)
			}
			return nil
		case s := <-signals:
			group.Signal(c.Process, s)
		case <-ctx.Done():
			group.End(c.Process)
			if err := <-ended; c.ProcessState == nil {
				return err
			}
			if errors.Is(context.Cause(ctx), redislimit.ErrLeaseLost) {
				return errors.New("the permit was lost because Redis did not renew it in time; the command was ended")
			}
			return context.Cause(ctx)
		}
	}
}
