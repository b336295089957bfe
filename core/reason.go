package core

import (
	"context"
	"errors"
	"io"
	"time"
)

// WithReason returns a view of l whose rejections carry the reason phrase, in their
// metadata and their error. All else is l's: the permits, the queue, the counts; closing
// the view closes l. The view is a [Replenisher] if l is one. A nil l is as [Unlimited].
func WithReason(l Limiter, phrase string) Limiter {
	if isNil(l) {
		l = Unlimited()
	}
	r := reasoned{newLink(l), phrase}
	if replenisher, ok := l.(Replenisher); ok {
		return &reasonedReplenisher{r, replenisher}
	}
	return &r
}

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
	l, err := answered(r.link.Acquire(ctx, permits))
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
		fixed.Reason = r.phrase
		explained.c.x.err = &fixed
	}
	return explained
}

func (r *reasoned) Refund(l Lease) { refund(r.Limiter, l) }

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
