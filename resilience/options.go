package resilience

import (
	"cmp"
	"context"
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

	// Limiter grants one permit for each function. It is the caller's: Close does not close it. nil: the
	// strategy makes a concurrency limiter of Default, and owns it.
	Limiter core.Limiter

	// Default configures the strategy's own limiter. A PermitLimit of 0 means 1,000, whatever
	// the other fields are. It is ignored if there is a Limiter.
	Default core.ConcurrencyLimiterOptions

	// Settle returns what a function has cost, in permits, once it has returned err. Below 0, the
	// lease stays as it is. Otherwise it is settled to that number before it is released, if the limiter
	// is a [core.Settler]; the lease of another limiter is refunded if the number is 0. Settle runs on
	// Do's goroutine, and not at all if the function panics or calls runtime.Goexit. nil: no lease is
	// settled.
	Settle func(ctx context.Context, err error) int

	// OnEvent is called for a rejection, on Do's goroutine, before Do returns. No permit is held
	// then. May be nil.
	OnEvent func(ctx context.Context, e Event)

	// Logger gets a record of each event, at the event's level, with the event's name as its
	// message and the attributes source, operation and retry_after. nil: silent.
	Logger *slog.Logger
}

// own returns the options of the strategy's own limiter.
func (o *Options) own() core.ConcurrencyLimiterOptions {
	own := o.Default
	own.PermitLimit = cmp.Or(own.PermitLimit, DefaultPermits)
	return own
}

// name returns the strategy's name.
func (o *Options) name() string { return cmp.Or(o.Name, DefaultName) }
