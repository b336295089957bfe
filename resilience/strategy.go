package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
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
	config atomic.Pointer[config]   // in force; nil: closed
	mu     sync.Mutex               // held while config changes
	own    *core.ConcurrencyLimiter // made by New or Concurrency, in force or replaced; nil: none
}

// config is the options, with the limiter. It does not change.
type config struct {
	Options
	admission
	own *core.ConcurrencyLimiter // the limiter, if the strategy made it; nil: the limiter is the caller's
}

// admission grants a permit for a call: by one limiter for all calls, or by a limiter for each key.
type admission interface {
	// acquire takes one permit. The lease is acquired if and only if the error is nil.
	acquire(ctx context.Context) (core.Lease, error)
	settle(ctx context.Context, l core.Lease, permits int) core.Lease
}

// New returns a strategy, or an error that lists the faults of the options.
func New(o Options) (*Strategy, error) {
	c, err := newConfig(o, nil)
	if err != nil {
		return nil, err
	}
	return newStrategy(c), nil
}

// Concurrency returns a strategy that runs at most permits functions at once and lets at most
// queue more wait. permits is at least 1, queue at least 0.
func Concurrency(permits, queue int) (*Strategy, error) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	return newStrategy(&config{admission: single{l}, own: l}), nil
}

// Limit is [New] with the caller's limiter and no other options. It returns an error if l is nil.
func Limit(l core.Limiter) (*Strategy, error) {
	if l == nil {
		return nil, errors.New("resilience: the limiter is nil")
	}
	return New(Options{Limiter: l})
}

func newStrategy(c *config) *Strategy {
	s := &Strategy{own: c.own}
	s.config.Store(c)
	return s
}

// newConfig returns a config for the options. If they have no Limiter, it is that of old, or a
// new one if old is nil.
func newConfig(o Options, old *config) (c *config, err error) {
	c = &config{Options: o}
	switch {
	case o.Limiter != nil:
		if backdoor.IsNil(o.Limiter) {
			return nil, fmt.Errorf("resilience: Options.Limiter: the limiter is nil: %T", o.Limiter)
		}
		c.admission = single{o.Limiter}
	case old == nil:
		c.own, err = core.NewConcurrencyLimiter(o.own())
		c.admission = single{c.own}
	default:
		c.admission, c.own = old.admission, old.own
		if c.own != nil {
			err = c.own.Update(o.own())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("resilience: Options.Default: %w", err)
	}
	return c, nil
}

// single is one limiter for all calls.
type single struct{ core.Limiter }

func (l single) acquire(ctx context.Context) (core.Lease, error) {
	lease, err := l.Acquire(ctx, 1)
	return backdoor.Checked(l.Limiter, lease, err)
}

func (l single) settle(_ context.Context, lease core.Lease, permits int) core.Lease {
	return backdoor.Settle(l.Limiter, lease, permits)
}

// Do runs f with ctx if the limiter grants a permit, waiting for it if necessary, and returns
// f's error unchanged. The permit is released when f returns, panics or calls runtime.Goexit.
// Apart from the limiter, a grant allocates nothing.
//
// If f is not run, the error is
//
//   - ctx.Err(), unchanged, if ctx was done before the wait or ended it;
//   - a [*RejectedError] if the limiter rejected; OnEvent and the Logger have been called by
//     then;
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
	defer l.Release()
	err = f(ctx)
	if c.Settle == nil {
		return err
	}
	if n := c.Settle(ctx, err); n >= 0 {
		c.settle(ctx, l, n).Release() // the lease that replaces l
	}
	return err
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
	if err != nil {
		return nil, core.Lease{}, s.failed(ctx, p, c, l, err)
	}
	return c, l, nil
}

// failed returns Do's error for the limiter's, and reports it if it is a rejection.
func (s *Strategy) failed(ctx context.Context, p *PipelineOptions, c *config, l core.Lease, err error) error {
	if !errors.Is(err, core.ErrRejected) {
		if done := ctx.Err(); done != nil {
			return done
		}
		if c.own != nil && s.config.Load() == nil { // Close has closed it
			return core.ErrClosed
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
