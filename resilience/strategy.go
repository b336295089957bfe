package resilience

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/argument"
)

// Executor runs a function, or refuses to: a [Strategy], a [Pipeline], or one of your own.
type Executor interface {
	// Do runs f, and returns its error unchanged; or it does not run f, and returns why.
	Do(ctx context.Context, f func(context.Context) error) error
}

// Strategy runs functions under a limiter, one permit each. Use [Strategy.Do], or
// [Execute] for a function that returns a value.
//
// It is safe for concurrent use. Make it with [New], [Concurrency], [Limit] or [Keyed];
// the zero value refuses with [core.ErrClosed].
type Strategy struct {
	terms atomic.Pointer[terms] // nil: closed

	mu      sync.Mutex // guards changes of terms, and what follows
	retired []*owned   // replaced limiters, of which some leases may still be out
}

// terms are the options in force, with the limiter. They do not change.
type terms struct {
	Options
	acquire func(ctx context.Context) (core.Lease, error)
	own     *owned // nil: the limiter is somebody else's
}

// owned is a limiter that a strategy made, and has to close.
type owned struct {
	*core.ConcurrencyLimiter
	retired atomic.Bool // no terms in force have it
}

// New returns a strategy, or what is wrong with the options.
func New(o Options) (*Strategy, error) {
	t := &terms{Options: o, acquire: o.Limiter}
	if o.Limiter == nil {
		l, err := core.NewConcurrencyLimiter(o.own())
		if err != nil {
			return nil, fmt.Errorf("resilience: Options.Default: %w", err)
		}
		t.own = &owned{ConcurrencyLimiter: l}
		t.acquire = one(l)
	}
	return newStrategy(t), nil
}

// Concurrency returns a strategy that runs at most permits functions at once and lets at
// most queue more wait. Permits are at least 1, the queue at least 0.
func Concurrency(permits, queue int) (*Strategy, error) {
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: queue})
	if err != nil {
		return nil, fmt.Errorf("resilience: %w", err)
	}
	return newStrategy(&terms{acquire: one(l), own: &owned{ConcurrencyLimiter: l}}), nil
}

// Limit returns a strategy with the caller's limiter, of which each function takes one
// permit. The limiter stays the caller's: the strategy's Close does not close it. At most
// one Options, without a Limiter.
func Limit(l core.Limiter, o ...Options) (*Strategy, error) {
	options, err := without(o)
	if argument.IsNil(l) {
		err = errors.Join(errors.New("resilience: the limiter is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return newStrategy(&terms{Options: options, acquire: one(l)}), nil
}

func newStrategy(t *terms) *Strategy {
	s := new(Strategy)
	s.terms.Store(t)
	return s
}

// one returns a function that takes one permit of l.
func one(l core.Limiter) func(context.Context) (core.Lease, error) {
	return func(ctx context.Context) (core.Lease, error) { return l.Acquire(ctx, 1) }
}

// Do runs f with ctx if the limiter grants a permit, waiting for it if the limiter makes it
// wait. f's error comes back unchanged. The permit is given back when f returns, panics or
// calls runtime.Goexit. A grant allocates nothing beyond what the limiter does.
//
// If f is not run, the error is
//
//   - ctx.Err(), unchanged, if ctx was done before or while it waited;
//   - a [*RejectedError] if the limiter refused: OnEvent and the Logger have had the event
//     then, and OnRejected the error;
//   - [core.ErrClosed] after Close, and to those who wait in the strategy's own limiter then;
//   - whatever else the limiter returned, wrapped.
//
// If the limiter or a callback panics, so does Do; no permit is held then.
func (s *Strategy) Do(ctx context.Context, f func(context.Context) error) error {
	t, l, err := s.admit(ctx, nil)
	if err != nil {
		return err
	}
	defer t.release(l)
	return f(ctx)
}

// admit takes a permit, or returns why not; p is the pipeline that asks, nil if none does.
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
			l.Release() // an error comes with no permits, whatever the limiter thinks
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

// refusal returns Do's error for the limiter's, after telling of it who is to know.
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
	t.tell(ctx, Event{
		Name:      OnRateLimiterRejected,
		Severity:  severity,
		Source:    source,
		Operation: operationOf(ctx),
		Rejected:  r,
	})
	if t.OnRejected != nil {
		t.OnRejected(ctx, r)
	}
	return r
}

// release gives a permit back.
func (t *terms) release(l core.Lease) {
	l.Release()
	t.drain()
}

// drain closes a limiter that was replaced, if this was its last lease.
func (t *terms) drain() {
	// Either the release came first, and who retires the limiter sees that it is idle; or
	// the limiter was retired first, and that is seen here.
	if o := t.own; o != nil && o.retired.Load() {
		o.drained()
	}
}

// drained reports whether nothing is taken of a retired limiter and nobody waits in it,
// and closes it then. Who still comes to it, with terms from before, comes back.
func (o *owned) drained() bool {
	s := o.Statistics()
	if s.Available < s.Limit || s.Queued > 0 {
		return false
	}
	_ = o.Close() // nil, always
	return true
}

// Update puts new options in force, for those that call from then on. A nil Limiter keeps
// the present one: the strategy's own gets the terms of Default in place, whoever waits in
// it stays, and who now fits is served; of a limiter that is somebody else's nothing
// changes. With a Limiter, that one decides from then on; if the strategy's own limiter is
// replaced so, it serves those who wait in it, and is closed when its last lease is back.
//
// Bad options change nothing. After Close it returns [core.ErrClosed].
func (s *Strategy) Update(o Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.terms.Load()
	if old == nil {
		return core.ErrClosed
	}
	t := &terms{Options: o, acquire: o.Limiter}
	if o.Limiter == nil {
		t.acquire, t.own = old.acquire, old.own
	}
	if t.own != nil {
		if err := t.own.Update(o.own()); err != nil {
			return fmt.Errorf("resilience: Options.Default: %w", err)
		}
	}
	s.terms.Store(t)
	s.retired = slices.DeleteFunc(s.retired, (*owned).drained)
	if old.own != t.own && old.own != nil {
		old.own.retired.Store(true)
		if !old.own.drained() {
			s.retired = append(s.retired, old.own)
		}
	}
	return nil
}

// Close closes the strategy's own limiter, if it has one: those who wait in it get
// [core.ErrClosed], what runs goes on, and its permits come back. From then on Do and
// Update return core.ErrClosed, whoever owns the limiter. It returns nil, however often it
// is called.
func (s *Strategy) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.terms.Swap(nil)
	if t != nil && t.own != nil {
		_ = t.own.Close() // nil, always
	}
	for _, o := range s.retired {
		_ = o.Close()
	}
	s.retired = nil
	return nil
}
