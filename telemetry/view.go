package telemetry

import (
	"io"
	"time"

	"github.com/sluice-go/sluice/core"
)

// as returns i as what its limiter is: a bare core.Limiter; or a view, which has what nearly all
// limiters have, and the other interfaces that its limiter has.
func (i *instrumented) as() core.Limiter {
	v := view{i}
	_, settles := i.l.(core.Settler)
	switch l := i.l.(type) {
	case core.Replenisher:
		if settles {
			return &settlingRate{rate{v, l}}
		}
		return &rate{v, l}
	case core.Resetter:
		return &resetting{settling{v}}
	case core.Settler:
		return &settling{v}
	case core.Reporter, core.Idler, core.Refunder, io.Closer:
		return &v
	}
	return i
}

// view is what all limiters of core are, except for Settle. What its limiter lacks does nothing,
// as in the views of core.
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

func (v *view) Refund(l core.Lease) { v.settle(l, 0) }

// Close closes the limiter if it can be closed.
func (v *view) Close() error {
	if c, ok := v.l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// reset resets the limiter if it is a Resetter.
func (v *view) reset() {
	if r, ok := v.l.(core.Resetter); ok {
		r.Reset()
	}
}

// settling is a view of a Settler.
type settling struct{ view }

func (s *settling) Settle(l core.Lease, permits int) core.Lease { return s.settle(l, permits) }

// resetting is a view of a Settler and Resetter.
type resetting struct{ settling }

func (r *resetting) Reset() { r.reset() }

// rate is a view of a Replenisher.
type rate struct {
	view
	core.Replenisher
}

func (r *rate) Reset() { r.reset() }

// settlingRate is a view of a Replenisher and Settler.
type settlingRate struct{ rate }

func (s *settlingRate) Settle(l core.Lease, permits int) core.Lease { return s.settle(l, permits) }
