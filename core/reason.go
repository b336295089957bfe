package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// WithReason returns a view of l whose rejections carry the reason phrase, in their
// metadata and their error. All else is l's: the permits, the queue, the counts; closing
// the view closes l. The view is a [Replenisher] if l is one, and has a method
// Unwrap() Limiter that returns l.
//
// A view of nil refuses everything, with an error that says so: no limit was given, and to
// have none must be asked for, with [Unlimited].
func WithReason(l Limiter, phrase string) Limiter {
	if isNil(l) {
		l = &refusing{errNoLimiter}
	}
	r := reasoned{newLink(l), phrase}
	if replenisher, ok := l.(Replenisher); ok {
		return &reasonedReplenisher{r, replenisher}
	}
	return &r
}

var errNoLimiter = errors.New("core: WithReason of a nil Limiter: it refuses everything")

type reasoned struct {
	link
	phrase string
}

type reasonedReplenisher struct {
	reasoned
	Replenisher
}

func (r *reasoned) TryAcquire(permits int) Lease { return r.explain(r.link.TryAcquire(permits)) }

func (r *reasoned) Acquire(ctx context.Context, permits int) (Lease, error) {
	l, err := r.link.Acquire(ctx, permits)
	l, err = answered(r.Limiter, l, err)
	if err == nil || !l.rejected() {
		return l, err
	}
	return r.explain(l).refusal()
}

// explain adds the reason to a rejection, and leaves any other lease as it is.
func (r *reasoned) explain(l Lease) Lease {
	if !l.rejected() {
		return l
	}
	explained := l.With(ReasonPhrase.With(r.phrase))
	if rejected := new(RejectedError); errors.As(explained.c.x.err, &rejected) {
		fixed := *rejected // given to Refuse
		fixed.Reason, fixed.Detail = r.phrase, ""
		explained.c.x.err = &fixed
	}
	return explained
}

func (r *reasoned) Refund(l Lease) { r.refund(l) }

// Unwrap returns the limiter that this is a view of.
func (r *reasoned) Unwrap() Limiter { return r.Limiter }

// Statistics are l's; of a limiter that counts nothing only Available is known.
func (r *reasoned) Statistics() Statistics {
	if k, ok := r.Limiter.(Reporter); ok {
		return k.Statistics()
	}
	return Statistics{Available: r.Limiter.Available()}
}

// IdleFor is l's; a limiter that does not know is never idle.
func (r *reasoned) IdleFor() (time.Duration, bool) {
	if i, ok := r.Limiter.(Idler); ok {
		return i.IdleFor()
	}
	return 0, false
}

// Close closes l if it can be closed.
func (r *reasoned) Close() error {
	if c, ok := r.Limiter.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// String returns a line for a person: the limiter's, and the phrase.
func (r *reasoned) String() string {
	return fmt.Sprintf("%s, refusing with %q", describe(r.Limiter), r.phrase)
}

// describe returns a line for a person about any limiter.
func describe(l Limiter) string {
	if s, ok := l.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T: %d available", l, l.Available())
}

// refusing is a limiter that stands where none was given.
type refusing struct{ err error }

func (r *refusing) TryAcquire(permits int) Lease {
	if permits < 0 {
		return Lease{bits: uint64(negative)}
	}
	return Refuse(r.err)
}

func (r *refusing) Acquire(ctx context.Context, permits int) (Lease, error) {
	if err := ctx.Err(); err != nil && permits >= 0 {
		return Refuse(err), err
	}
	l := r.TryAcquire(permits)
	return l, l.Err()
}

func (r *refusing) Available() int         { return 0 }
func (r *refusing) Statistics() Statistics { return Statistics{} }
func (r *refusing) String() string         { return "no limiter" }
