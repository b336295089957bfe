package wait

import (
	"context"
	"errors"
	"os"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/group"
	"github.com/sluice-go/sluice/redislimit"
)

// under runs the command for as long as ctx, which is the lease's. Signals go to all of its group.
func (o *options) under(ctx context.Context, path string, signals <-chan os.Signal) error {
	attr, back := group.Foreground()
	defer back()
	p, err := os.StartProcess(path, o.command, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr})
	if err != nil {
		return cli.Exit(statusOfStart(err), err)
	}
	type ending struct {
		state *os.ProcessState
		err   error
	}
	ended := make(chan ending, 1)
	go func() {
		state, err := p.Wait()
		ended <- ending{state, err}
	}()
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
				return errors.New("the permit was lost, as Redis did not renew it in time: the command was ended")
			}
			return context.Cause(ctx)
		}
	}
}
