package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sluice-go/sluice/core"
)

// DefaultPermits is how many functions a strategy runs at once unless it is given another
// number.
const DefaultPermits = 1000

// DefaultName is the name of a strategy that is given none.
const DefaultName = "RateLimiter"

// Options configure a [Strategy]. The zero value is usable: 1,000 functions at once, and none
// waits.
type Options struct {
	// Name is the strategy's name in events and errors. "": [DefaultName].
	Name string

	// Limiter decides about each call. It is given Do's context and may choose another limiter
	// each time. If it returns a lease that is not acquired and a nil error, the lease's Err is
	// the error. nil: the strategy makes a concurrency limiter of Default, and owns it.
	Limiter func(ctx context.Context) (core.Lease, error)

	// Default configures the strategy's own limiter. A PermitLimit of 0 means 1,000, whatever
	// the other fields are. It is ignored if there is a Limiter.
	Default core.ConcurrencyLimiterOptions

	// Settle returns what a function has cost, in permits, once it has returned err: the lease
	// is settled to that number before it is released, as [core.Settler] does. Below 0, the
	// lease stays as it is. Settle runs on Do's goroutine, and not at all if the function
	// panics or calls runtime.Goexit. nil: no lease is settled. The leases of a Limiter cannot
	// be settled, so the two together are an error: use [Limit] or [Keyed].
	Settle func(ctx context.Context, err error) int

	// OnRejected is called for a rejection, on Do's goroutine, before Do returns. No permit is
	// held then. May be nil.
	OnRejected func(ctx context.Context, r *RejectedError)

	// OnEvent is called for a rejection, before OnRejected. May be nil.
	OnEvent func(ctx context.Context, e Event)

	// Logger gets a record of each event, at the event's level, with the event's name as its
	// message and the attributes source, operation and retry_after. nil: silent.
	Logger *slog.Logger
}

// own returns the options of the strategy's own limiter.
func (o *Options) own() core.ConcurrencyLimiterOptions {
	own := o.Default
	if own.PermitLimit == 0 {
		own.PermitLimit = DefaultPermits
	}
	return own
}

// name returns the strategy's name.
func (o *Options) name() string {
	if o.Name == "" {
		return DefaultName
	}
	return o.Name
}

// atMostOne returns the options of [Limit] or [Keyed], which have the limiter already.
func atMostOne(options []Options) (Options, error) {
	var o Options
	var errs []error
	if len(options) > 1 {
		errs = append(errs, fmt.Errorf("resilience: %d Options, want at most 1", len(options)))
	}
	if len(options) > 0 {
		o = options[0]
	}
	if o.Limiter != nil {
		errs = append(errs, errors.New("resilience: Options.Limiter is set, but the limiter is given already: want nil"))
	}
	return o, errors.Join(errs...)
}
