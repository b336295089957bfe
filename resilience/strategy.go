package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/partition"
)

// DefaultPermits is how many functions a strategy runs at a time if it makes its own limiter and
// Options.Default sets no PermitLimit.
const DefaultPermits = 1000

// DefaultName is the name of a strategy whose Options.Name is empty.
const DefaultName = "RateLimiter"

// Options configure a [Strategy]. The zero value is usable: 1,000 functions run at a time, and
// none waits.
type Options struct {
	// Name is the strategy's name in errors and log messages. "" means [DefaultName].
	Name string

	// Limiter grants one permit per function. It stays the caller's: Close does not close it. If it
	// is nil, the strategy makes a concurrency limiter of Default and owns it.
	Limiter core.Limiter

	// Default configures the strategy's own limiter. A PermitLimit of 0 means 1,000. Default is
	// ignored if Limiter is set.
	Default core.ConcurrencyLimiterOptions

	// Settle returns the actual cost of a function in permits, once the function has returned err.
	// The lease is settled to that cost before it is released; see [core.Lease.Settle]. If Settle
	// returns a number below 0, the lease stays as it is. Settle runs on Do's goroutine. It does not
	// run if the function panics or calls runtime.Goexit. If Settle is nil, no lease is settled.
	Settle func(ctx context.Context, err error) int

	// OnRejected is called for each rejection on Do's goroutine, before Do returns r. No permit is
	// held then. It may be nil.
	OnRejected func(ctx context.Context, r *RejectedError)

	// Logger logs each rejection at the level Error, with the attributes strategy and retry_after,
	// before OnRejected is called. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Strategy runs functions under a limiter, one permit each. Use [Strategy.Do], or [Execute] for
// a function that returns a value.
//
// It is safe for concurrent use. Create it with [New], [Concurrency], [Limit] or [Keyed]; the zero
// value fails with [core.ErrClosed].
type Strategy struct {
	config atomic.Pointer[config]   // nil after Close
	mu     sync.Mutex               // held while config changes
	own    *core.ConcurrencyLimiter // the limiter that New or Concurrency made; nil if there is none
}

// config is the options with the limiter. It does not change.
type config struct {
	Options
	admission
	own *core.ConcurrencyLimiter // the limiter, if it is the strategy's own
}

// admission takes one permit for a call: from one limiter, or from the limiter of a key.
type admission interface {
	// acquire takes one permit. The lease is acquired if and only if the error is nil.
	acquire(ctx context.Context) (core.Lease, error)
}

// New returns a strategy, or an error that lists all invalid options.
func New(o Options) (*Strategy, error) {
	c, err := newConfig(o, nil)
	if err != nil {
		return nil, err
	}
	return newStrategy(c), nil
}

// Concurrency returns a strategy that runs at most permits functions at a time and lets at most
// queue more wait. permits must be at least 1, and queue at least 0.
func Concurrency(permits, queue int) (*Strategy, error) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	return newStrategy(&config{admission: single{l}, own: l}), nil
}

// Limit returns a strategy that runs functions under l. It returns an error if l is nil.
func Limit(l core.Limiter) (*Strategy, error) {
	if l == nil {
		return nil, errors.New("resilience: the limiter is nil")
	}
	return New(Options{Limiter: l})
}

// Keyed returns a strategy with a limiter per key: each function takes one permit for the request (for
// example, the caller's name) that the function of returns for Do's context. The strategy's Close does
// not close l. o.Limiter must be nil; o.Default is ignored.
func Keyed[R any](l partition.Limiter[R], of func(context.Context) R, o Options) (*Strategy, error) {
	var errs []error
	if backdoor.IsNil(l) {
		errs = append(errs, errors.New("resilience: the limiter is nil"))
	}
	if of == nil {
		errs = append(errs, errors.New("resilience: the function that finds the request is nil"))
	}
	if o.Limiter != nil {
		errs = append(errs, errors.New("resilience: Options.Limiter is set, want nil: Keyed has a limiter of its own"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return newStrategy(&config{Options: o, admission: keyed[R]{l, of}}), nil
}

func newStrategy(c *config) *Strategy {
	s := &Strategy{own: c.own}
	s.config.Store(c)
	return s
}

// newConfig returns a config for the options. If they have no Limiter, the config keeps that of
// old, or gets a new one if old is nil.
func newConfig(o Options, old *config) (c *config, err error) {
	c = &config{Options: o}
	if old != nil {
		c.keep(old)
	}
	switch {
	case o.Limiter != nil:
		if backdoor.IsNil(o.Limiter) {
			return nil, fmt.Errorf("resilience: Options.Limiter: the limiter is nil: %T", o.Limiter)
		}
		c.admission = single{o.Limiter}
	case old == nil:
		own := o.Default
		own.PermitLimit = cmp.Or(own.PermitLimit, DefaultPermits)
		c.own, err = core.NewConcurrencyLimiter(own)
		c.admission = single{c.own}
	default:
		c.admission, c.own = old.admission, old.own
		if own := o.Default; c.own != nil && own != (core.ConcurrencyLimiterOptions{}) {
			own.PermitLimit = cmp.Or(own.PermitLimit, c.own.Options().PermitLimit)
			err = c.own.Update(own)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("resilience: Options.Default: %w", err)
	}
	return c, nil
}

// keep takes over what the options leave unset.
func (c *config) keep(old *config) {
	c.Name = cmp.Or(c.Name, old.Name)
	c.Logger = cmp.Or(c.Logger, old.Logger)
	if c.Settle == nil {
		c.Settle = old.Settle
	}
	if c.OnRejected == nil {
		c.OnRejected = old.OnRejected
	}
}

// Do runs f with ctx if the limiter grants a permit, waiting for it if necessary, and returns
// f's error unchanged. The permit is released when f returns, panics or calls runtime.Goexit.
// Apart from the limiter, a grant allocates nothing.
//
// If f is not run, the error is
//
//   - ctx.Err(), unchanged, if ctx was done before the wait or ended it;
//   - a [*RejectedError] if the limiter rejected, after OnRejected has returned;
//   - [core.ErrClosed] after Close, and for a wait in the strategy's own limiter that Close ended;
//   - any other error of the limiter, wrapped.
//
// If the limiter or a callback panics, so does Do, and no permit stays held.
func (s *Strategy) Do(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := s.config.Load()
	if c == nil {
		return core.ErrClosed
	}
	lease, err := c.acquire(ctx)
	if err != nil {
		return s.failed(ctx, c, lease, err)
	}
	defer lease.Release()
	err = f(ctx)
	if c.Settle == nil {
		return err
	}
	if cost := c.Settle(ctx, err); cost >= 0 {
		lease.Settle(cost).Release()
	}
	return err
}

// Execute runs f under s and returns f's results unchanged, the value even with an error. If f is
// not run, the value is T's zero value and the error is that of [Strategy.Do].
func Execute[T any](ctx context.Context, s *Strategy, f func(context.Context) (T, error)) (T, error) {
	var v T
	if s == nil {
		return v, errors.New("resilience: the strategy is nil")
	}
	err := s.Do(ctx, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// failed returns Do's error for an error of the limiter, and reports it if it is a rejection.
func (s *Strategy) failed(ctx context.Context, c *config, l core.Lease, err error) error {
	name := cmp.Or(c.Name, DefaultName)
	if !errors.Is(err, core.ErrRejected) {
		if done := ctx.Err(); done != nil {
			return done
		}
		if c.own != nil && s.config.Load() == nil { // Close has closed it
			return core.ErrClosed
		}
		return fmt.Errorf("resilience: %s: %w", name, err)
	}
	r := newRejected(name, l, err)
	if c.Logger != nil {
		c.Logger.LogAttrs(ctx, slog.LevelError, "rejected",
			slog.String("strategy", r.Strategy), slog.Duration("retry_after", r.RetryAfter))
	}
	if c.OnRejected != nil {
		c.OnRejected(ctx, r)
	}
	return r
}

// Update applies new options to later calls. What o leaves unset stays as it is.
//
// If o.Limiter is set, it decides all later calls; the previous limiter is not closed and still serves
// its waiters. If it is nil, the strategy keeps its limiter. If that is its own and o.Default is set,
// the limiter gets these options in place, keeps its waiters and serves those that now fit; a
// PermitLimit of 0 keeps the present one.
//
// Invalid options change nothing. After Close, Update returns [core.ErrClosed].
func (s *Strategy) Update(o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.config.Load()
	if old == nil {
		return core.ErrClosed
	}
	c, err := newConfig(o, old)
	if err != nil {
		return err
	}
	s.config.Store(c)
	return nil
}

// Close closes the strategy's own limiter, if there is one: its waiters get [core.ErrClosed], and
// functions that run continue. From then on Do and Update return core.ErrClosed, also if the
// limiter is the caller's. Close always returns nil, and may be called again.
func (s *Strategy) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Store(nil)
	if s.own != nil {
		_ = s.own.Close() // always nil
	}
	return nil
}

// single is one limiter for all calls.
type single struct{ core.Limiter }

func (l single) acquire(ctx context.Context) (core.Lease, error) {
	return backdoor.Checked(l.Acquire(ctx, 1))
}

// keyed is a limiter per key.
type keyed[R any] struct {
	l  partition.Limiter[R]
	of func(context.Context) R
}

func (k keyed[R]) acquire(ctx context.Context) (core.Lease, error) {
	return backdoor.Checked(k.l.Acquire(ctx, k.of(ctx), 1))
}
