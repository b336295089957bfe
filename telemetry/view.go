package telemetry

import (
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
)

// as returns i with the methods of a limiter of core's, Settle among them if its limiter has it. core.As finds
// the rest of what the limiter is.
func (i *instrumented) as() core.Limiter {
	if _, ok := i.l.(core.Settler); ok {
		return &settling{i}
	}
	return i
}

// What its limiter lacks of the following does nothing, as in the views of core.

// Statistics returns the limiter's; of a limiter that is not a Reporter only Available is known.
func (i *instrumented) Statistics() core.Statistics {
	if r, ok := core.As[core.Reporter](i.l); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: i.l.Available()}
}

// IdleFor returns the limiter's; a limiter that is not an Idler is never idle.
func (i *instrumented) IdleFor() (time.Duration, bool) {
	if d, ok := core.As[core.Idler](i.l); ok {
		return d.IdleFor()
	}
	return 0, false
}

// Close closes the limiter if it can be closed.
func (i *instrumented) Close() error {
	if c, ok := core.As[io.Closer](i.l); ok {
		return c.Close()
	}
	return nil
}

// Refund gives the permits back.
func (i *instrumented) Refund(l core.Lease) {
	i.settle(l, 0, func(limiter any, lease core.Lease, _ int) core.Lease {
		backdoor.Refund(limiter, lease)
		return lease
	})
}

// settling is a view of a Settler.
type settling struct{ *instrumented }

// Settle corrects the cost of a lease.
func (s *settling) Settle(l core.Lease, permits int) core.Lease {
	return s.settle(l, permits, backdoor.Settle)
}
