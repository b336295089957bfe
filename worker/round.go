package worker

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/internal/ending"
	"github.com/sluice-go/sluice/internal/limiter"
)

// round is the tasks from one cancellation to the next: what they share, and what a Wait
// that returns the error of a cancelled round replaces.
type round struct {
	ctx       *ending.Context // of the tasks that Submit brought; they end with life
	admission ending.Source   // ends the Submit calls that wait in the limiter
	life      ending.Source   // ends the tasks' contexts
}

// newRound returns a round whose tasks' context has what background has.
func newRound(background context.Context) *round {
	r := new(round)
	r.ctx = r.life.Begin(background)
	return r
}

// end cancels all that belongs to the round.
func (r *round) end(cause error) {
	r.admission.End(cause)
	r.life.End(cause)
}

// explain adds what cancelled the round to the error of a function that ended since its
// context had, and not that of its caller.
func (r *round) explain(ctx context.Context, err error) error {
	if cause := r.life.Cause(); cause != nil && cause != ErrClosed && //nolint:errorlint // that very error
		errors.Is(err, context.Canceled) && ctx.Err() == nil && !limiter.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}
