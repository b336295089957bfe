package telemetry

import (
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
)

// as returns i with the methods that its limiter has reason for: those of a bare core.Limiter, or those of
// a view, which may settle. core.As finds the rest of what the limiter is.
func (i *instrumented) as() core.Limiter {
	switch i.l.(type) {
	case core.Settler:
		return &settling{view{i}}
	case core.Reporter, core.Idler, core.Refunder, core.Resetter, core.Replenisher, io.Closer:
		return &view{i}
	}
	return i
}

// view has the optional interfaces of nearly all limiters. What its limiter lacks of them does nothing, as
// in the views of core.
type view struct{ *instrumented }

// Statistics returns the limiter's; of a limiter that is not a Reporter only Available is known.
func (v *view) Statistics() core.Statistics {
	if r, ok := core.As[core.Reporter](v.l); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: v.l.Available()}
}

// IdleFor returns the limiter's; a limiter that is not an Idler is never idle.
func (v *view) IdleFor() (time.Duration, bool) {
	if d, ok := core.As[core.Idler](v.l); ok {
		return d.IdleFor()
	}
	return 0, false
}

// Close closes the limiter if it can be closed.
func (v *view) Close() error {
	if c, ok := core.As[io.Closer](v.l); ok {
		return c.Close()
	}
	return nil
}

// Refund gives the permits back.
func (v *view) Refund(l core.Lease) { v.settle(l, 0) }

// settling is a view of a Settler.
type settling struct{ view }

// Settle corrects the cost of a lease.
func (s *settling) Settle(l core.Lease, permits int) core.Lease { return s.settle(l, permits) }
