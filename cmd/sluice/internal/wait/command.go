// Package wait is the command sluice wait: it takes a permit of a limit that machines share through Redis, and runs a
// command while it has it.
package wait

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/spec"
)

const examples = `  sluice wait --redis redis://cache:6379/0 --key deploy "concurrency 1" -- ./deploy.sh
  sluice wait --redis redis://cache:6379/0 --key mail 10/m -- sendmail -t < letter
  sluice wait --redis redis://cache:6379/0 --key report --try 1/h || exit 0`

// Exit statuses that are not the command's.
const (
	rejected  = 75 // EX_TEMPFAIL of sysexits.h
	cannotRun = 126
	notFound  = 127
	bySignal  = 128 // and its number
)

const (
	budget     = 5 * time.Second // of one answer of the server
	leastTTL   = 10 * time.Millisecond
	defaultTTL = 30 * time.Second
)

// New returns the command.
func New() *cobra.Command {
	var o options
	ttl := cli.Duration(defaultTTL)
	c := &cobra.Command{
		Use:   "wait --redis URL --key NAME SPEC [-- COMMAND [ARG...]]",
		Short: "Wait for a permit of a limit that machines share",
		Long: `Wait takes a permit of the limit SPEC that all processes with the same --key share, on
any machine, and then runs COMMAND, if there is one. The permit is released when COMMAND
ends. Waiting processes are served in the order in which they came; --try does not stand
in line.

A permit of "concurrency N" is held while COMMAND runs, and renewed every third of --ttl.
If it cannot be renewed for --ttl, others may get it, so COMMAND is ended, with all that
it has started. If wait itself is killed (kill -9), its permit is free again after --ttl at
most. On Linux, COMMAND is then killed too, but not what it has started; elsewhere it goes
on, and the next one may run at the same time.

A Redis server that restarts without its data has forgotten who holds permits. Until the
holders notice, within a third of --ttl, it may let in others as well; so may a failover.
With "appendonly yes" and "appendfsync always" a restart forgets nothing.

The exit status is that of COMMAND: 128 and the signal's number if one ended it, 127 if it
is not found, 126 if it cannot be run. Else it is 0, 75 if --try is rejected, and 1 if
Redis is unreachable or the permit is lost.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.read(c.ArgsLenAtDash(), args, time.Duration(ttl)); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&o.redis, "redis", "", "the server at `URL`: redis://HOST:PORT/DB")
	s.StringVar(&o.key, "key", "", "the limit's `NAME` on the server")
	s.BoolVar(&o.try, "try", false, "do not wait: exit with status 75 if no permit is available now")
	s.Var(&ttl, "ttl", "how long a permit lives that is not renewed")
	return c
}

// options are what the user asks for.
type options struct {
	redis, key string
	try        bool
	ttl        time.Duration
	limit      spec.Limit
	command    []string // none: the permit is all
}

// read reads the arguments; dash of them come before "--", or all if it is below 0.
func (o *options) read(dash int, args []string, ttl time.Duration) (err error) {
	if dash >= 0 {
		if args, o.command = args[:dash], args[dash:]; len(o.command) == 0 {
			return cli.Usage("no command behind --")
		}
	}
	switch {
	case o.redis == "":
		return cli.Usage("no --redis")
	case o.key == "":
		return cli.Usage("no --key")
	case strings.ContainsAny(o.key, "{}"):
		return cli.Usage("--key %q has a brace", o.key)
	case len(args) == 0:
		return cli.Usage("no limit, want one such as 10/m or \"concurrency 1\"")
	case len(args) > 1:
		return cli.Usage("unexpected argument %q, want -- before the command, and one limit, in quotes if it has spaces", args[1])
	case ttl < leastTTL:
		return cli.Usage("--ttl %v, want at least %v", ttl, leastTTL)
	}
	o.ttl = ttl
	if o.limit, err = spec.Parse(args[0]); err != nil {
		return cli.Usage("%s", strings.TrimPrefix(err.Error(), "spec: "))
	}
	if o.limit.Kind != spec.Unlimited {
		o.limit.Queue = math.MaxInt // a wait has no bound
	}
	return nil
}

// run waits for the permit, and runs the command.
func (o *options) run(ctx context.Context) error {
	var path string
	if len(o.command) > 0 {
		var err error
		if path, err = exec.LookPath(o.command[0]); err != nil && !errors.Is(err, exec.ErrDot) {
			return cli.Exit(statusOfStart(err), err) // before the permit is taken
		}
	}
	store, err := shared.Open(o.redis, budget)
	if err != nil {
		return cli.Usage("--redis %q: %w", withoutPassword(o.redis), err)
	}
	defer func() { _ = store.Close() }()
	signals := make(chan os.Signal, 8)
	cli.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := store.New(o.limit, o.key, redislimit.Shared{
		Key: o.key, TTL: o.ttl, Ahead: 1,
		OnState: func(up bool, err error) {
			if !up {
				cancel(fmt.Errorf("%w: %w", shared.ErrUnreachable, err))
			}
		},
	})
	if err != nil {
		return err
	}
	if c, ok := l.(interface{ Close() error }); ok {
		defer func() { _ = c.Close() }()
	}
	lease, err := o.acquire(ctx, cancel, store, l, signals)
	if err != nil {
		return err
	}
	defer lease.Release()
	if len(o.command) == 0 {
		return nil
	}
	return o.under(redislimit.Context(context.WithoutCancel(ctx), lease), path, signals)
}

// acquire takes a permit, unless a signal comes first.
func (o *options) acquire(
	ctx context.Context, cancel context.CancelCauseFunc, store *shared.Store, l core.Limiter, signals <-chan os.Signal,
) (core.Lease, error) {
	if o.try {
		lease := l.TryAcquire(1)
		if errors.Is(lease.Err(), core.ErrRejected) && !errors.Is(lease.Err(), redislimit.ErrStore) {
			return lease, cli.Exit(rejected, lease.Err())
		}
		return lease, lease.Err()
	}
	type answer struct {
		lease core.Lease
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		lease, err := o.acquireInLine(ctx, store, l)
		answers <- answer{lease, err}
	}()
	select {
	case a := <-answers:
		return a.lease, a.err
	case s := <-signals:
		cancel(nil)
		a := <-answers
		a.lease.Release()
		return core.Lease{}, cli.Exit(bySignal+number(s), errors.New("interrupted while it waited"))
	}
}

// acquireInLine takes a permit when it is this process' turn.
func (o *options) acquireInLine(ctx context.Context, store *shared.Store, l core.Limiter) (core.Lease, error) {
	if o.limit.Kind != spec.Unlimited {
		leave, err := store.Line(ctx, o.key)
		if err != nil {
			return core.Lease{}, err
		}
		defer leave()
	}
	lease, err := l.Acquire(ctx, 1)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, shared.ErrUnreachable) {
		err = cause
	}
	return lease, err
}

func number(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

func statusOfStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return notFound
	}
	return cannotRun
}

// withoutPassword returns a URL without what comes before its host.
func withoutPassword(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		return "..." + url[at:]
	}
	return url
}
