// Package wait is the command sluice wait: it takes a permit of a limit that machines share through Redis, and runs a
// command while it holds the permit.
package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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

const examples = `  sluice wait --redis redis://cache:6379/0 --key deploy --limit "concurrency 1" -- ./deploy.sh
  sluice wait --redis redis://cache:6379/0 --key mail --limit 10/m -- sendmail -t < letter
  sluice wait --redis redis://cache:6379/0 --key report --limit 1/h --try || exit 0
  SLUICE_REDIS=redis://cache:6379/0 sluice wait --key deploy --limit "concurrency 1" --max-wait 10m -- ./deploy.sh`

const rejected = 75 // EX_TEMPFAIL of sysexits.h

const (
	timeout    = 5 * time.Second // for one call of the server
	minTTL     = 10 * time.Millisecond
	defaultTTL = 30 * time.Second
	retryEvery = 250 * time.Millisecond // while the server is unreachable
)

// New returns the command.
func New() *cobra.Command {
	var o options
	ttl := cli.Duration(defaultTTL)
	var maxWait cli.Duration
	c := &cobra.Command{
		Use:   "wait [--redis URL] --key NAME --limit SPEC [-- COMMAND [ARG...]]",
		Short: "Run a command once a limit shared through Redis permits it",
		Long: `Wait takes a permit of the limit SPEC, which all processes with the same --key share, on any
machine. Then it runs COMMAND, if there is one, and releases the permit when COMMAND
exits. Waiting processes are served in order of arrival; with --try, wait does not wait. If
Redis becomes unreachable, they wait until it is back and keep their order.

A SPEC is 10/m, "concurrency 1", or several with commas; "sluice help limits" explains it.
Permits of a rate come at even intervals unless it has a burst, as in sluice run. A TIME is
250ms, 1h30m, or a plain number of seconds.

Set the server with --redis, --redis-file or the environment variable SLUICE_REDIS; one of
them is required. Put a URL with a password in the file or the variable, because other
users can see command lines.

All processes with one key should use the same SPEC. If another was used in the last 24
hours, wait prints a warning and uses its own.

A permit of "concurrency N" is held while COMMAND runs, and renewed every third of --ttl.
If it cannot be renewed for --ttl, other processes may get it, so wait ends COMMAND and
everything that COMMAND has started. If wait itself is killed (kill -9), its permit is free
again after --ttl at most. On Linux, COMMAND is then killed too, but not the processes that
it has started; elsewhere COMMAND continues, and may overlap with the next one.

A Redis server that restarts without its data forgets who holds permits. Until the holders
notice, within a third of --ttl, it may grant their permits again; so may a failover. With
"appendonly yes" and "appendfsync always", a restart loses nothing.

The exit status is that of COMMAND, 128 plus the signal number if a signal ended it, 127 if
it is not found, and 126 if it cannot be run. Without COMMAND it is 0. It is 75 if --try is
rejected or --max-wait expires, and 1 if Redis is unreachable at the start or the permit is
lost.`,
		Example: examples,
		RunE: func(c *cobra.Command, args []string) error {
			o.ttl, o.maxWait = time.Duration(ttl), time.Duration(maxWait)
			if c.Flags().Changed("max-wait") && o.maxWait <= 0 {
				return cli.Usage("--max-wait %v is too short; use --try to not wait at all", o.maxWait)
			}
			if err := o.readArguments(c.ArgsLenAtDash(), args); err != nil {
				return err
			}
			if err := o.findRedis(); err != nil {
				return err
			}
			if err := o.read(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.SetInterspersed(false) // a flag of COMMAND is not one of wait, even if -- is missing
	s.StringVar(&o.redis, "redis", "", "share the limit through the Redis server at `URL`: redis://HOST:PORT/DB (default: $SLUICE_REDIS)")
	s.StringVar(&o.redisFile, "redis-file", "", "read the URL of the server from `FILE`")
	s.StringVar(&o.key, "key", "", "share the limit with all processes that use `NAME`; required")
	s.StringVar(&o.typed, "limit", "", "take a permit of `SPEC`, such as 10/m or \"concurrency 1\"; required")
	s.BoolVar(&o.try, "try", false, "do not wait: exit with status 75 if no permit is available now")
	s.Var(&maxWait, "max-wait", "exit with status 75 if a permit will not come within `TIME`, at once if that is known (default: no limit)")
	s.BoolVarP(&o.verbose, "verbose", "v", false, "report that it waits, and behind how many others, even without a terminal")
	s.Var(&ttl, "ttl", "free a permit that has not been renewed for `TIME`, at least 10ms")
	_ = c.MarkFlagFilename("redis-file")
	return c
}

// options are the flags and arguments.
type options struct {
	redis, redisFile, key string
	from                  string // what gave the URL of the server: a flag or a variable
	try, verbose          bool
	maxWait               time.Duration // 0 means no bound
	ttl                   time.Duration
	typed                 string // the value of --limit
	limits                spec.Limits
	text                  string   // the limits in the syntax of package spec
	command               []string // empty if only the permit is wanted
}

// readArguments reads the arguments. The first dash of them come before "--", or all of them if dash is below 0.
func (o *options) readArguments(dash int, args []string) error {
	if dash >= 0 {
		if args, o.command = args[:dash], args[dash:]; len(o.command) == 0 {
			return cli.Usage("COMMAND is missing after --")
		}
	}
	switch {
	case len(args) > 0 && o.typed == "":
		return cli.Usage("unexpected argument %q; write --limit %[1]q, and -- before COMMAND", args[0])
	case len(args) > 0:
		return cli.Usage("unexpected argument %q; write -- before COMMAND, and quote a SPEC that contains spaces", args[0])
	}
	return nil
}

// read reads the limits, and reports flags that cannot be used together.
func (o *options) read() error {
	switch {
	case o.try && o.maxWait > 0:
		return cli.Usage("use --try or --max-wait, not both")
	case o.key == "":
		return cli.Usage("--key is required")
	case strings.ContainsAny(o.key, "{}"):
		return cli.Usage("--key %q contains a brace; use a name without { and }", o.key)
	case o.typed == "":
		return cli.Usage("--limit is required, such as --limit 10/m or --limit \"concurrency 1\"")
	case o.ttl < minTTL:
		return cli.Usage("--ttl %v is too short; use at least %v", o.ttl, minTTL)
	}
	limits, err := cli.ParseLimits(o.typed, "permits")
	if err != nil {
		return cli.Usage("--limit %q %w", o.typed, err)
	}
	if slices.ContainsFunc(limits, func(l spec.Limit) bool { return l.Kind == spec.Paused }) {
		return cli.Usage("--limit %q grants nothing, and nobody can change it; use a limit such as 10/m", o.typed)
	}
	o.limits, o.text = cli.Patient(limits), limits.String()
	return nil
}

// redisVariable is the environment variable with the URL of the server.
const redisVariable = "SLUICE_REDIS"

// findRedis sets the URL of the server.
func (o *options) findRedis() error {
	if o.redis != "" && o.redisFile != "" {
		return cli.Usage("use --redis or --redis-file, not both")
	}
	o.from = "--redis"
	if o.redisFile != "" {
		o.from = "--redis-file " + o.redisFile + " has"
		text, err := os.ReadFile(o.redisFile)
		if err != nil {
			return cli.Usage("--redis-file: %w", err)
		}
		if o.redis = strings.TrimSpace(string(text)); o.redis == "" {
			return cli.Usage("--redis-file %s is empty", o.redisFile)
		}
	}
	if o.redis == "" {
		o.redis, o.from = os.Getenv(redisVariable), "$"+redisVariable
	}
	if o.redis == "" {
		return cli.Usage("--redis is required, or --redis-file or $" + redisVariable)
	}
	return nil
}

// run waits for the permit, and runs the command.
func (o *options) run(ctx context.Context) error {
	var path string
	if len(o.command) > 0 {
		var err error
		if path, err = cli.LookPath(o.command[0]); err != nil {
			return cli.Exit(cli.StatusOfStart(err), err) // before the permit is taken
		}
	}
	store, err := shared.Open(o.redis, timeout)
	if err != nil {
		return cli.Usage("%s %q: %w", o.from, shared.WithoutPassword(o.redis), err)
	}
	defer func() { _ = store.Close() }()
	signals := make(chan os.Signal, 8)
	cli.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if cli.Unlimited(o.limits) {
		_, _ = fmt.Fprintf(os.Stderr, "sluice wait: warning: --limit %q limits nothing; other processes with the key %s are not waited for\n", o.typed, o.key)
		return o.under(ctx, path, signals)
	}
	w := newWatch(o.key, o.verbose)
	defer w.end()
	l, err := o.limiter(store)
	if err != nil {
		return cli.Usage("--limit %q: %w", o.text, err)
	}
	stop := redislimit.Watch(store.Limits(), w.state)
	defer stop()
	lease, err := o.acquire(ctx, &line{store, l, w}, signals)
	if err != nil {
		return err
	}
	defer end(l)
	w.end()
	defer lease.Release()
	return o.under(redislimit.Context(context.WithoutCancel(ctx), lease), path, signals)
}

// limiter returns the limiter of all limits. The second limit has the key NAME/2, and so on.
func (o *options) limiter(store *shared.Store) (core.Limiter, error) {
	var all []core.Limiter
	for i, limit := range o.limits {
		key := o.key
		if i > 0 {
			key += fmt.Sprintf("/%d", i+1)
		}
		if limit.Kind == spec.Unlimited {
			continue
		}
		l, err := store.New(limit, o.key, redislimit.Options{Key: key, TTL: o.ttl, Prefetch: 1})
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return core.Chain(all...)
}

// end closes a limiter, and the limiters of a chain.
func end(l core.Limiter) {
	if chain, ok := l.(*core.ChainedLimiter); ok {
		for _, part := range chain.Limiters() {
			end(part)
		}
	}
	_ = l.(io.Closer).Close()
}

// line is the line of processes that wait for the limiter.
type line struct {
	store   *shared.Store
	limiter core.Limiter
	watch   *watch
}

// leaveTime is how long a wait that ends without a permit waits for the server, so that the process leaves the line. A process that
// does not leave is gone from the line after as long.
const leaveTime = time.Second

// acquire takes a permit, unless a signal or the end of --max-wait comes first.
func (o *options) acquire(ctx context.Context, l *line, signals <-chan os.Signal) (core.Lease, error) {
	var cancel context.CancelFunc
	if o.maxWait > 0 {
		ctx, cancel = context.WithTimeout(ctx, o.maxWait)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	type answer struct {
		lease core.Lease
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		lease, err := o.take(ctx, l)
		answers <- answer{lease, err}
	}()
	err := cli.Exit(rejected, fmt.Errorf("no permit of %s came free within %v", o.key, o.maxWait))
	select {
	case a := <-answers:
		if a.err == nil {
			return a.lease, nil
		}
		if !over(ctx) {
			err = a.err
		}
		answers <- a
	case <-ctx.Done():
	case s := <-signals:
		err = cli.Exit(cli.StatusOf(s), errors.New("interrupted while waiting"))
	}
	cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		a := <-answers
		a.lease.Release()
		end(l.limiter)
	}()
	select {
	case <-left:
	case <-time.After(leaveTime): //nolint:forbidigo // the process ends
	}
	return core.Lease{}, err
}

// over reports whether ctx has ended, or its deadline has passed. A connection has the same deadline, and it may notice that before
// the timer of ctx does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) <= 0
}

// explain returns the error of the command when the server or the limiter has returned err. Without --try, the limiter rejects if a
// permit would become available too late for --max-wait, or never.
func (o *options) explain(err error) error {
	switch {
	case shared.IsStore(err):
		return errors.New(shared.Reason(err))
	case !errors.Is(err, core.ErrRejected):
		if err != nil && strings.Contains(err.Error(), " holds ") { // the key is of another kind of limit
			err = fmt.Errorf("%w; use another --key for this limit", err)
		}
		return err
	}
	if r, ok := errors.AsType[*core.RejectedError](err); ok && r.RetryAfter > 0 {
		err = fmt.Errorf("no permit of %s is free now; the next one is in %v", o.key, r.RetryAfter.Round(time.Millisecond))
	} else {
		err = fmt.Errorf("no permit of %s is free now", o.key)
	}
	return cli.Exit(rejected, err)
}

// take takes a permit when it is this process's turn. With --try, it takes one that is available now.
func (o *options) take(ctx context.Context, l *line) (core.Lease, error) {
	switch last, err := l.store.Announce(ctx, o.key, o.text); {
	case err != nil && !shared.IsRefusal(err): // a server may refuse this call and no other
		return core.Lease{}, errors.New(shared.Reason(err))
	case last != "" && last != o.text:
		l.watch.say("key %s: using limit %q, but %q was used last", o.key, o.text, last)
	}
	if o.try {
		lease := l.limiter.TryAcquire(1)
		return lease, o.explain(lease.Err())
	}
	leave, err := l.store.Line(ctx, o.key, shared.Waiter{Waiting: l.watch.waiting, State: l.watch.state})
	if err != nil {
		return core.Lease{}, o.explain(err)
	}
	defer leave()
	l.watch.waiting(0)
	for {
		lease, err := l.limiter.Acquire(ctx, 1)
		if !errors.Is(err, redislimit.ErrStore) || ctx.Err() != nil {
			if err == nil {
				l.watch.state(true, nil)
			}
			return lease, o.explain(err)
		}
		l.watch.state(false, err)
		cli.Sleep(ctx, retryEvery)
	}
}
