package resilience

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sluice-go/sluice/core"
)

// DefaultPermits is how many functions a strategy admits at once if nothing else is said.
const DefaultPermits = 1000

// DefaultName is the name of a strategy that was given none.
const DefaultName = "RateLimiter"

// Options are what a [Strategy] is made of. The zero value is usable: 1,000 functions at
// once, and none waits.
type Options struct {
	// Name is the strategy's, in events and errors. "": [DefaultName].
	Name string

	// Limiter decides about each call; it is given Do's context, and may choose another
	// limiter for each. nil: a concurrency limiter of Default, which the strategy owns. A
	// lease that is not acquired beside a nil error is judged by its Err.
	Limiter func(ctx context.Context) (core.Lease, error)

	// Default are the terms of the strategy's own limiter. A PermitLimit of 0 means 1,000,
	// whatever the rest. It is not looked at if there is a Limiter.
	Default core.ConcurrencyLimiterOptions

	// OnRejected is called on a refusal, on Do's goroutine, before Do returns. No permit is
	// held then. May be nil.
	OnRejected func(ctx context.Context, r *RejectedError)

	// OnEvent is told of a refusal before OnRejected is. May be nil.
	OnEvent func(ctx context.Context, e Event)

	// Logger gets a record for each event, at the event's level, with the event's name as
	// its message and the attributes source, operation and retry_after. nil: silent.
	Logger *slog.Logger
}

// own returns the terms of the strategy's own limiter.
func (o *Options) own() core.ConcurrencyLimiterOptions {
	terms := o.Default
	if terms.PermitLimit == 0 {
		terms.PermitLimit = DefaultPermits
	}
	return terms
}

// name returns the strategy's name.
func (o *Options) name() string {
	if o.Name == "" {
		return DefaultName
	}
	return o.Name
}

// without returns the options of a strategy whose limiter is given beside them.
func without(options []Options) (Options, error) {
	var o Options
	var errs []error
	if len(options) > 1 {
		errs = append(errs, fmt.Errorf("resilience: %d Options, want at most 1", len(options)))
	}
	if len(options) > 0 {
		o = options[0]
	}
	if o.Limiter != nil {
		errs = append(errs, errors.New("resilience: Options.Limiter is set beside a limiter, want nil"))
	}
	return o, errors.Join(errs...)
}
