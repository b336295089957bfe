package telemetry

import (
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
)

// as returns i as what its limiter is: a bare core.Limiter, or a view with the interfaces that
// all of core's limiters have, and with those that only some have.
func (i *instrumented) as() core.Limiter {
	switch l := i.l.(type) {
	case core.Replenisher:
		return &replenishing{resetting{view{i}}, l}
	case core.Resetter:
		return &resetting{view{i}}
	case core.Reporter, core.Idler, core.Refunder, core.Settler, io.Closer:
		return &view{i}
	}
	return i
}

// view is what all limiters of core are. What the limiter lacks does nothing, as in the views of
// core.
type view struct{ *instrumented }

// Statistics returns the limiter's; for a limiter that is not a Reporter only Available is
// known.
func (v *view) Statistics() core.Statistics {
	if r, ok := v.l.(core.Reporter); ok {
		return r.Statistics()
	}
	return core.Statistics{Available: v.l.Available()}
}

// IdleFor returns the limiter's; a limiter that is not an Idler is never idle.
func (v *view) IdleFor() (time.Duration, bool) {
	if d, ok := v.l.(core.Idler); ok {
		return d.IdleFor()
	}
	return 0, false
}

func (v *view) Settle(l core.Lease, permits int) core.Lease { return v.settle(l, permits) }

func (v *view) Refund(l core.Lease) { v.settle(l, 0) }

// Close closes the limiter if it can be closed.
func (v *view) Close() error {
	if c, ok := v.l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// resetting is a view of a Resetter.
type resetting struct{ view }

// Reset resets the limiter if it is a Resetter.
func (r *resetting) Reset() {
	if l, ok := r.l.(core.Resetter); ok {
		l.Reset()
	}
}

// replenishing is a view of a Replenisher.
type replenishing struct {
	resetting
	core.Replenisher
}
