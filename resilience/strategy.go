package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/partition"
)

// Executor runs a function, or returns an error without running it: a [Strategy], a [Pipeline],
// or one of your own.
type Executor interface {
	// Do runs f and returns its error unchanged; or it returns why it did not run f.
	Do(ctx context.Context, f func(context.Context) error) error
}

// Strategy runs functions under a limiter, one permit each. Use [Strategy.Do], or [Execute] for
// a function that returns a value.
//
// It is safe for concurrent use. Make it with [New], [Concurrency], [Limit] or [Keyed]; the zero
// value fails with [core.ErrClosed].
type Strategy struct {
	config atomic.Pointer[config] // in force; nil: closed
	mu     sync.Mutex             // held while config changes
	own    *owned                 // what New or Concurrency made, in force or replaced; nil: nothing
}

// config is the options, with the limiter. It does not change.
type config struct {
	Options
	acquire func(ctx context.Context) (core.Lease, error)
	settle  func(ctx context.Context, l core.Lease, permits int) core.Lease // nil: acquire is Options.Limiter
	own     *owned                                                          // nil: the limiter is the caller's
}

// New returns a strategy, or an error that lists the faults of the options.
func New(o Options) (*Strategy, error) {
	if o.Limiter != nil {
		return newStrategy(&config{Options: o, acquire: o.Limiter})
	}
	l, err := core.NewConcurrencyLimiter(o.own())
	if err != nil {
		return nil, fmt.Errorf("resilience: Options.Default: %w", err)
	}
	return newOwner(o, l)
}

// Concurrency returns a strategy that runs at most permits functions at once and lets at most
// queue more wait. permits is at least 1, queue at least 0.
func Concurrency(permits, queue int) (*Strategy, error) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	return newOwner(Options{}, l)
}

// newOwner returns a strategy that owns l.
func newOwner(o Options, l *core.ConcurrencyLimiter) (*Strategy, error) {
	c := limitedBy(o, l)
	c.own = &owned{ConcurrencyLimiter: l}
	return newStrategy(c)
}

// Limit returns a strategy with the caller's limiter; each function takes one permit. The
// strategy's Close does not close the limiter. At most one Options may be given, without a
// Limiter.
func Limit(l core.Limiter, o ...Options) (*Strategy, error) {
	options, err := atMostOne(o)
	if argument.IsNil(l) {
		err = errors.Join(errors.New("resilience: the limiter is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return newStrategy(limitedBy(options, l))
}

// limitedBy returns a config with one limiter for all calls.
func limitedBy(o Options, l core.Limiter) *config {
	return keyedBy(o, partition.Shared[struct{}](l), func(context.Context) struct{} { return struct{}{} })
}

func newStrategy(c *config) (*Strategy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Strategy{own: c.own}
	s.config.Store(c)
	return s, nil
}

// validate returns an error for options that contradict the limiter.
func (c *config) validate() error {
	if c.Settle != nil && c.settle == nil {
		return errors.New("resilience: Options.Settle and Options.Limiter are both set, but the leases of a Limiter cannot be settled: use Limit or Keyed")
	}
	return nil
}

// Do runs f with ctx if the limiter grants a permit, waiting for it if necessary, and returns
// f's error unchanged. The permit is released when f returns, panics or calls runtime.Goexit.
// Apart from the limiter, a grant allocates nothing.
//
// If f is not run, the error is
//
//   - ctx.Err(), unchanged, if ctx was done before the wait or ended it;
//   - a [*RejectedError] if the limiter rejected; OnEvent, the Logger and OnRejected have been
//     called by then;
//   - [core.ErrClosed] after Close, also for a wait in the strategy's own limiter that Close
//     ended;
//   - any other error of the limiter, wrapped.
//
// If the limiter or a callback panics, so does Do, and no permit stays held.
func (s *Strategy) Do(ctx context.Context, f func(context.Context) error) error {
	return s.run(ctx, nil, f)
}

// run is Do for a strategy in a pipeline; p is nil outside of pipelines.
func (s *Strategy) run(ctx context.Context, p *PipelineOptions, f func(context.Context) error) error {
	c, l, err := s.admit(ctx, p)
	if err != nil {
		return err
	}
	defer c.release(l)
	err = f(ctx)
	if c.Settle != nil {
		c.settleCost(ctx, l, err)
	}
	return err
}

// settleCost settles the lease of a function that returned err, and releases the lease that
// replaces it.
func (c *config) settleCost(ctx context.Context, l core.Lease, err error) {
	if n := c.Settle(ctx, err); n >= 0 {
		c.settle(ctx, l, n).Release()
	}
}

// admit takes a permit, or returns the reason why not.
func (s *Strategy) admit(ctx context.Context, p *PipelineOptions) (*config, core.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.Lease{}, err
	}
	c := s.config.Load()
	if c == nil {
		return nil, core.Lease{}, core.ErrClosed
	}
	l, err := c.acquire(ctx)
	if err != nil || !l.Acquired() {
		return s.admitSlow(ctx, p, c, l, err)
	}
	return c, l, nil
}

// admitSlow is admit after the limiter of c has answered without a grant.
func (s *Strategy) admitSlow(ctx context.Context, p *PipelineOptions, c *config, l core.Lease, err error) (*config, core.Lease, error) {
	for {
		switch {
		case err == nil && l.Acquired():
			return c, l, nil
		case err == nil:
			err = l.Err()
		default:
			l.Release() // a lease with an error is the limiter's mistake
		}
		c.closeReplaced()
		if c.own == nil || !errors.Is(err, core.ErrClosed) {
			break
		}
		// The strategy's own limiter is closed after it was replaced, or by Close; in both
		// cases the config was changed before, so the loop ends.
		now := s.config.Load()
		if now == nil {
			return nil, core.Lease{}, core.ErrClosed
		}
		c = now
		l, err = c.acquire(ctx)
	}
	return nil, core.Lease{}, c.failed(ctx, p, l, err)
}

// failed returns Do's error for the limiter's, and reports it if it is a rejection.
func (c *config) failed(ctx context.Context, p *PipelineOptions, l core.Lease, err error) error {
	if !errors.Is(err, core.ErrRejected) {
		if done := ctx.Err(); done != nil && (errors.Is(err, done) || limiter.Is(err, context.Cause(ctx))) {
			return done
		}
		return fmt.Errorf("resilience: %s: %w", c.name(), err)
	}
	if p == nil {
		p = pipelineOf(ctx)
	}
	source := Source{Strategy: c.name()}
	if p != nil {
		source.Pipeline, source.Instance = p.Name, p.Instance
	}
	r := newRejected(source, l, err)
	c.report(ctx, r, source)
	return r
}

func (c *config) release(l core.Lease) {
	l.Release()
	c.closeReplaced()
}
