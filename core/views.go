package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/wait"
)

// view is what the views of a limiter share: everything that a view does not change is the
// limiter's.
type view struct{ Limiter }

// Unwrap returns the limiter that this is a view of.
func (v *view) Unwrap() Limiter { return v.Limiter }

// Statistics returns the limiter's; for a limiter that is not a Reporter only Available is
// known.
func (v *view) Statistics() Statistics {
	if k, ok := v.Limiter.(Reporter); ok {
		return k.Statistics()
	}
	return Statistics{Available: v.Available()}
}

// IdleFor returns the limiter's; a limiter that is not an Idler is never idle.
func (v *view) IdleFor() (time.Duration, bool) {
	if i, ok := v.Limiter.(Idler); ok {
		return i.IdleFor()
	}
	return 0, false
}

func (v *view) TryQuietly(permits int) (Lease, bool) { return TryQuietly(v.Limiter, permits) }

// Close closes the limiter if it can be closed.
func (v *view) Close() error {
	if c, ok := v.Limiter.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// TryReplenish, ReplenishmentPeriod and AutoReplenishing are those of the [Replenisher] that [As] finds in the limiter.
// If there is none, the period is 0, as a chain's.
func (v *view) TryReplenish() bool { return v.replenisher().TryReplenish() }

func (v *view) ReplenishmentPeriod() time.Duration { return v.replenisher().ReplenishmentPeriod() }

func (v *view) AutoReplenishing() bool { return v.replenisher().AutoReplenishing() }

func (v *view) replenisher() Replenisher {
	if r, ok := As[Replenisher](v.Limiter); ok {
		return r
	}
	return new(ChainedLimiter)
}

// Reset resets the limiter if it is a [Resetter].
func (v *view) Reset() {
	if r, ok := As[Resetter](v.Limiter); ok {
		r.Reset()
	}
}

// WithReason returns a limiter that wraps l and gives its rejections the reason phrase, in their metadata and their
// error. Permits, queue and statistics are those of l, and Close closes l. The returned limiter has a method Unwrap()
// Limiter that returns l. It is a [Replenisher]; the period is 0 if l is not one. It is also a [Resetter]; Reset does
// nothing if l is not one.
//
// If l is nil, every request fails with an error that says so. To have no limit, use [Unlimited].
func WithReason(l Limiter, phrase string) Limiter {
	if isNil(l) {
		l = &failing{errNoLimiter}
	}
	return &reasoned{view{l}, phrase}
}

var errNoLimiter = errors.New("core: WithReason of a nil Limiter: every request fails")

type reasoned struct {
	view
	phrase string
}

func (r *reasoned) TryAcquire(permits int) Lease { return r.explain(r.Limiter.TryAcquire(permits)) }

func (r *reasoned) Acquire(ctx context.Context, permits int) (Lease, error) {
	l, _, err := r.acquireUnder(ctx, permits, nil, bounded)
	return l, err
}

// explained returns the answer of the limiter's Acquire, with the reason if it is a rejection.
func (r *reasoned) explained(ctx context.Context, l Lease, err error) (Lease, error) {
	if err == nil || !l.rejected() {
		return l, err
	}
	if own := ctx.Err(); own != nil && same(err, own) {
		return l, err // the context's error, even if it is a rejection
	}
	return r.explain(l).asError()
}

// explain adds the reason to a rejection, and leaves any other lease as it is.
func (r *reasoned) explain(l Lease) Lease {
	if !l.rejected() {
		return l
	}
	explained := l.With(ReasonPhrase.With(r.phrase))
	if rejected := new(RejectedError); errors.As(explained.h.x.err, &rejected) {
		fixed := *rejected // given to Fail
		fixed.Reason, fixed.Detail = r.phrase, ""
		explained.h.x.err = &fixed
	}
	return explained
}

// String returns a human-readable line: that of the limiter, and the phrase.
func (r *reasoned) String() string {
	return fmt.Sprintf("%s, rejecting with %q", describe(r.Limiter), r.phrase)
}

// failing takes the place of a limiter that was not given.
type failing struct{ err error }

func (r *failing) TryAcquire(permits int) Lease {
	if permits < 0 {
		return Lease{bits: uint64(negative)}
	}
	return Fail(r.err)
}

func (r *failing) Acquire(ctx context.Context, permits int) (Lease, error) {
	return acquireNow(ctx, r, permits)
}

func (r *failing) Reserve(n int) Lease    { return r.TryAcquire(n) }
func (r *failing) Available() int         { return 0 }
func (r *failing) Statistics() Statistics { return Statistics{} }
func (r *failing) String() string         { return "no limiter" }

// Shadowed is set on a lease that [Shadow] granted although its limiter did not: the limiter's
// error.
var Shadowed = NewMetadataKey[error]("SHADOWED")

// Shadow returns a limiter that wraps l and grants every request, while l decides and counts. Use it
// to observe a limit before enforcing it.
//
// TryAcquire and Acquire both call l's TryAcquire, so no request waits. A request that would
// have waited in l counts as rejected, with a [RetryAfter] that says how long the wait would
// have been. A lease that l grants is returned unchanged. If l does not grant, even with
// [ErrClosed] or [ErrPermitsExceedLimit], Shadow's limiter returns an acquired lease that holds
// nothing and has [Shadowed] in its metadata. Negative permits and a done context are errors, as
// for any limiter.
//
// Statistics are those of l. Close closes l, and later requests are still granted. The returned limiter has a method
// Unwrap() Limiter that returns l. Like the limiter of [WithReason], it is a [Replenisher] and a [Resetter]. If l is
// nil, every request is granted, with a Shadowed error that says so.
func Shadow(l Limiter) Limiter {
	if isNil(l) {
		l = &failing{errNoShadow}
	}
	return &shadow{view{l}}
}

var errNoShadow = errors.New("core: Shadow of a nil Limiter: it grants everything")

type shadow struct{ view }

func (s *shadow) TryAcquire(permits int) Lease {
	l := s.Limiter.TryAcquire(permits)
	if l.Acquired() || permits < 0 {
		return l
	}
	return newLease(&free, granted, permits, unknown, unknown, 0).With(Shadowed.With(l.Err()))
}

func (s *shadow) Acquire(ctx context.Context, permits int) (Lease, error) {
	return acquireNow(ctx, s, permits)
}

// String returns a human-readable line: that of the limiter, marked as shadowed.
func (s *shadow) String() string { return describe(s.Limiter) + ", shadowed" }

func (r *failing) itself() Limiter  { return r }
func (r *reasoned) itself() Limiter { return r }
func (s *shadow) itself() Limiter   { return s }

func (r *reasoned) roots() []root { return rootsOf(r.Limiter) }

func (s *shadow) roots() []root {
	all := slices.Clone(rootsOf(s.Limiter))
	for i := range all {
		all[i].shadowed = true
	}
	return all
}

func (r *reasoned) acquireUnder(ctx context.Context, permits int, s *wait.Source, q queueing) (Lease, bool, error) {
	l, waited, err := acquireUnder(ctx, r.Limiter, permits, s, q)
	l, err = r.explained(ctx, l, err)
	return l, waited, err
}

// Reserve is the limiter's, if it is a [Reserver].
func (r *reasoned) Reserve(permits int) Lease { return r.explain(reserve(r.Limiter, permits)) }

// Reserve is TryAcquire: a request that would have had to wait is granted and [Shadowed].
func (s *shadow) Reserve(permits int) Lease {
	l := s.TryAcquire(permits)
	if !l.Acquired() {
		return l
	}
	return l.delayed(0)
}
