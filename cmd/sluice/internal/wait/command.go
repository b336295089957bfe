// Package wait takes a permit of a limit that machines share, and runs a command under it.
package wait

import (
	"context"
	"errors"
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

// Exit statuses, beside those of the command.
const (
	refused    = 75 // EX_TEMPFAIL of sysexits.h
	cannotRun  = 126
	notFound   = 127
	bySignal   = 128 // and its number
	budget     = 5 * time.Second
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
		Long: `Wait takes a permit of the limit SPEC that all who name the same --key share, on any
machine, and then runs COMMAND, if there is one. The permit is given back at its end.

Permits of "concurrency N" are held while COMMAND runs, and renewed meanwhile. If that
fails for longer than --ttl, others may get them: COMMAND is ended then, with all that
it has started.

The exit status is that of COMMAND: 128 and the signal's number if one ended it, 127 if it
is not found, 126 if it cannot be run. Else it is 0, 75 if --try is refused, and 1 if
Redis is away or the permit is lost.`,
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
	s.StringVar(&o.redis, "redis", "", "the limit is on the server at `URL`: redis://HOST:PORT/DB")
	s.StringVar(&o.key, "key", "", "it is called `NAME` there")
	s.BoolVar(&o.try, "try", false, "do not wait: exit with status 75 if there is no permit now")
	s.Var(&ttl, "ttl", "a permit that is not renewed for so long is lost")
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

// read reads the arguments, of which the first dash stand before "--".
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
		o.limit.Queue = math.MaxInt // whoever waits does so for as long as it takes
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
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := store.New(o.limit, o.key, redislimit.Shared{
		Key: o.key, TTL: o.ttl, Ahead: 1,
		OnState: func(up bool, err error) {
			if !up {
				cancel(&awayError{err})
			}
		},
	})
	if err != nil {
		return err
	}
	if c, ok := l.(interface{ Close() error }); ok {
		defer func() { _ = c.Close() }()
	}
	lease, err := o.acquire(ctx, cancel, l, signals)
	if err != nil {
		return err
	}
	defer lease.Release()
	if len(o.command) == 0 {
		return nil
	}
	return o.under(redislimit.Context(context.WithoutCancel(ctx), lease), path, signals)
}

// awayError is why nobody waits any longer.
type awayError struct{ error }

func (e *awayError) Error() string { return "redis is away: " + e.error.Error() }

func (e *awayError) Unwrap() error { return e.error }

// acquire takes a permit, unless a signal comes first.
func (o *options) acquire(ctx context.Context, cancel context.CancelCauseFunc, l core.Limiter, signals <-chan os.Signal) (core.Lease, error) {
	if o.try {
		lease := l.TryAcquire(1)
		if errors.Is(lease.Err(), core.ErrRejected) && !errors.Is(lease.Err(), redislimit.ErrStore) {
			return lease, cli.Exit(refused, lease.Err())
		}
		return lease, lease.Err()
	}
	type answer struct {
		lease core.Lease
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		lease, err := l.Acquire(ctx, 1)
		answers <- answer{lease, err}
	}()
	select {
	case a := <-answers:
		if away, ok := errors.AsType[*awayError](context.Cause(ctx)); ok && a.err != nil {
			a.err = away
		}
		return a.lease, a.err
	case s := <-signals:
		cancel(nil)
		a := <-answers
		a.lease.Release()
		return core.Lease{}, cli.Exit(bySignal+number(s), errors.New("interrupted while it waited"))
	}
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

// withoutPassword returns a URL without what stands before its host.
func withoutPassword(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		return "..." + url[at:]
	}
	return url
}
