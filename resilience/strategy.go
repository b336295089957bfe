package resilience

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
	"github.com/sluice-go/sluice/partition"
)

// Executor runs a function or refuses to: a [Strategy], a [Pipeline], or one of your own.
type Executor interface {
	// Do runs f and returns its error unchanged; or it does not run f and returns the reason.
	Do(ctx context.Context, f func(context.Context) error) error
}

// Strategy runs functions under a limiter, one permit each. Use [Strategy.Do], or [Execute] for
// a function that returns a value.
//
// It is safe for concurrent use. Make it with [New], [Concurrency], [Limit] or [Keyed]; the zero
// value refuses with [core.ErrClosed].
type Strategy struct {
	terms atomic.Pointer[terms] // nil: closed

	mu      sync.Mutex // guards changes of terms, and what follows
	retired []*owned   // replaced limiters that may have leases out
}

// terms are the options in force, with the limiter. They do not change.
type terms struct {
	Options
	acquire func(ctx context.Context) (core.Lease, error)
	settle  func(ctx context.Context, l core.Lease, permits int) core.Lease // nil: acquire is Options.Limiter
	own     *owned                                                          // nil: the limiter is the caller's
}

// New returns a strategy, or an error that lists the faults of the options.
func New(o Options) (*Strategy, error) {
	if o.Limiter != nil {
		return newStrategy(&terms{Options: o, acquire: o.Limiter})
	}
	l, err := core.NewConcurrencyLimiter(o.own())
	if err != nil {
		return nil, fmt.Errorf("resilience: Options.Default: %w", err)
	}
	t := limitedBy(o, l)
	t.own = &owned{ConcurrencyLimiter: l}
	return newStrategy(t)
}

// Concurrency returns a strategy that runs at most permits functions at once and lets at most
// queue more wait. permits is at least 1, queue at least 0.
func Concurrency(permits, queue int) (*Strategy, error) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	t := limitedBy(Options{}, l)
	t.own = &owned{ConcurrencyLimiter: l}
	return newStrategy(t)
}

// Limit returns a strategy with the caller's limiter; each function takes one permit. The
// strategy's Close does not close the limiter. At most one Options may be given, without a
// Limiter.
func Limit(l core.Limiter, o ...Options) (*Strategy, error) {
	options, err := without(o)
	if argument.IsNil(l) {
		err = errors.Join(errors.New("resilience: the limiter is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return newStrategy(limitedBy(options, l))
}

// limitedBy returns the terms of a limiter that is one for all calls.
func limitedBy(o Options, l core.Limiter) *terms {
	return keyedBy(o, partition.Shared[struct{}](l), func(context.Context) struct{} { return struct{}{} })
}

func newStrategy(t *terms) (*Strategy, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	s := new(Strategy)
	s.terms.Store(t)
	return s, nil
}

// validate reports options that the limiter cannot follow.
func (t *terms) validate() error {
	if t.Settle != nil && t.settle == nil {
		return errors.New("resilience: Options.Settle is set beside Options.Limiter, whose leases cannot be settled: use Limit or Keyed")
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
	t, l, err := s.admit(ctx, p)
	if err != nil {
		return err
	}
	defer t.release(l)
	err = f(ctx)
	if t.Settle != nil {
		t.settleCost(ctx, l, err)
	}
	return err
}

// settleCost settles the lease of a function that returned err, and releases the lease that
// replaces it.
func (t *terms) settleCost(ctx context.Context, l core.Lease, err error) {
	if n := t.Settle(ctx, err); n >= 0 {
		t.settle(ctx, l, n).Release()
	}
}

// admit takes a permit, or returns the reason why not.
func (s *Strategy) admit(ctx context.Context, p *PipelineOptions) (*terms, core.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, core.Lease{}, err
	}
	t := s.terms.Load()
	if t == nil {
		return nil, core.Lease{}, core.ErrClosed
	}
	l, err := t.acquire(ctx)
	if err != nil || !l.Acquired() {
		return s.admitSlow(ctx, p, t, l, err)
	}
	return t, l, nil
}

// admitSlow is admit where the limiter of t has not granted.
func (s *Strategy) admitSlow(ctx context.Context, p *PipelineOptions, t *terms, l core.Lease, err error) (*terms, core.Lease, error) {
	for {
		switch {
		case err == nil && l.Acquired():
			return t, l, nil
		case err == nil:
			err = l.Err()
		default:
			l.Release() // a mistake of the limiter's, if it is a lease
		}
		t.drain()
		if t.own == nil || !errors.Is(err, core.ErrClosed) {
			break
		}
		// The strategy's own limiter is closed after it was replaced, or by Close; in both
		// cases the terms were changed before. So this ends.
		now := s.terms.Load()
		if now == nil {
			return nil, core.Lease{}, core.ErrClosed
		}
		t = now
		l, err = t.acquire(ctx)
	}
	return nil, core.Lease{}, s.refusal(ctx, p, t, l, err)
}

// refusal returns Do's error for the limiter's, and reports it if it is a rejection.
func (s *Strategy) refusal(ctx context.Context, p *PipelineOptions, t *terms, l core.Lease, err error) error {
	if !errors.Is(err, core.ErrRejected) {
		if done := ctx.Err(); done != nil && (errors.Is(err, done) || errors.Is(err, context.Cause(ctx))) {
			return done
		}
		return fmt.Errorf("resilience: %s: %w", t.name(), err)
	}
	if p == nil {
		p = pipelineOf(ctx)
	}
	source := Source{Strategy: t.name()}
	if p != nil {
		source.Pipeline, source.Instance = p.Name, p.Instance
	}
	r := newRejected(source, l, err)
	t.report(ctx, r, source)
	return r
}

// release releases a lease.
func (t *terms) release(l core.Lease) {
	l.Release()
	t.drain()
}
