package core

import (
	"context"

	"github.com/sluice-go/sluice/internal/fair"
)

// Flow is on whose behalf a request waits: a tenant, an API key, a user. Limiters whose order is
// [FairShare] look at it. The zero Flow, that of a context without one, is one flow too.
type Flow struct {
	Key      string // requests of equal Key and Priority are one flow
	Weight   int    // its share compared with other flows; 0: 1; from 1 to 1<<20
	Priority int    // flows of a higher priority are served first, always; from -100 to 100
}

type flowKey struct{}

// WithFlow returns a copy of ctx whose requests wait as f. A Weight or Priority out of range is
// moved to the nearest value in range. Each request is charged by its own Weight.
//
// The Key must be one that clients cannot choose, such as an authenticated user: k keys are k
// shares, and a client that makes up a new key for each request takes all of them. The same holds
// for the Priority: a flow of a higher priority leaves the lower ones nothing as long as it wants
// all.
func WithFlow(ctx context.Context, f Flow) context.Context {
	return context.WithValue(ctx, flowKey{}, Flow(fair.Flow(f).InRange()))
}

// FlowFromContext returns the Flow of the latest [WithFlow], and whether there is one.
func FlowFromContext(ctx context.Context) (Flow, bool) {
	f, ok := ctx.Value(flowKey{}).(Flow)
	return f, ok
}
