package policy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/partition"
)

// Asker asks policies.
type Asker[R, O any] struct {
	Observer Observer     // nil: none
	Logger   *slog.Logger // nil: silent
	Log      *Log         // what the Logger was told; one for all options that a server has had
	Package  string       // begins the messages

	// DeadlineCancels is true if the deadline of a request's context is its client's: a wait that
	// it ends is canceled. Else it is rejected.
	DeadlineCancels bool
}

// Ask asks p for permits, and adds the answer to asked even if a function of the user's panics. It
// returns Acquired if the limiter granted them; passed reports whether the request may go on, as
// it may without a lease where the policy is in shadow or fails open. Without wait it takes only
// permits that are available now.
func (a *Asker[R, O]) Ask(ctx context.Context, r R, p *Policy[R, O], wait bool, asked *[]Ask[R, O]) (result Result, passed bool, err error) {
	permits := 1
	if p.Permits != nil {
		permits = p.Permits(r)
	}
	switch {
	case permits <= 0:
		return Acquired, true, nil
	case p.Limiter == nil: // the policy limits something else, such as bytes
		*asked = append(*asked, Ask[R, O]{Policy: p})
		return Acquired, true, nil
	}
	var waited time.Duration
	if a.Observer != nil {
		result = Failed // unless the limiter returns
		defer func() { a.Observer.Decided(ctx, p.Name, result, waited) }()
	}
	q := question[R, O]{asker: a, policy: p, limiter: partition.For(p.Limiter, r), permits: permits}
	var lease core.Lease
	if wait && p.MaxWait != 0 && !p.Shadow {
		lease, result, waited, err = q.acquire(ctx)
	} else {
		lease, result, err = q.tryAcquire()
	}
	*asked = append(*asked, Ask[R, O]{Policy: p, Limiter: q.limiter, Lease: lease})
	switch {
	case result == Acquired:
		if a.Observer != nil {
			(*asked)[len(*asked)-1].observe(ctx, a.Observer)
		}
		return result, true, nil
	case result == Failed:
		a.Log.log(ctx, a.Logger, slog.LevelError, event{a.Package + ": a limiter failed", p.Name}, err)
		return result, p.FailOpen || p.Shadow, err
	case p.Shadow:
		result = Shadowed
		a.Log.log(ctx, a.Logger, slog.LevelWarn, event{a.Package + ": a policy in shadow would have rejected", p.Name}, err)
		return result, true, err
	}
	return result, false, err
}

// question is what a policy's limiter is asked.
type question[R, O any] struct {
	asker   *Asker[R, O]
	policy  *Policy[R, O]
	limiter core.Limiter // bound to the request
	permits int
}

// tryAcquire takes the permits if they are available now.
func (q question[R, O]) tryAcquire() (core.Lease, Result, error) {
	lease := q.limiter.TryAcquire(q.permits)
	if lease.Acquired() {
		return lease, Acquired, nil
	}
	err := lease.Err()
	if Rejected(err) {
		return lease, q.policy.Rejected, err
	}
	return lease, Failed, err
}

// acquire takes the permits, and waits for them for as long as the policy allows.
func (q question[R, O]) acquire(ctx context.Context) (lease core.Lease, result Result, waited time.Duration, err error) {
	w := &waiting{Context: ctx, most: max(q.policy.MaxWait, 0)}
	func() {
		told := false
		defer func() {
			if !told && lease.Acquired() { // the Observer has panicked
				limiter.Refund(q.limiter, lease)
			}
		}()
		defer func() { waited, told = w.end(), true }()
		if o := q.asker.Observer; o != nil {
			w.queued = func(delta int) { o.Queued(ctx, q.policy.Name, delta) }
		}
		lease, err = q.limiter.Acquire(w, q.permits) //nolint:contextcheck // w is made of ctx
	}()
	if err == nil && lease.Acquired() {
		return lease, Acquired, waited, nil
	}
	lease, err = limiter.Checked(q.limiter, lease, err)
	// Two rejections are one: a lease may make its error anew each time that it is asked.
	if own := lease.Err(); !limiter.Is(own, err) && (!errors.Is(own, core.ErrRejected) || !errors.Is(err, core.ErrRejected)) {
		lease = core.Refuse(err) // a careless limiter
	}
	return lease, q.ended(ctx, w, err), waited, err
}

// ended returns the result of a wait that ended with err.
func (q question[R, O]) ended(ctx context.Context, w *waiting, err error) Result {
	ended := ctx.Err()
	switch {
	case Rejected(err):
		return q.policy.Rejected
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return Failed
	case ended != nil && (q.asker.DeadlineCancels || !errors.Is(ended, context.DeadlineExceeded)):
		return RequestCanceled
	case ended != nil || w.over():
		return q.policy.Rejected
	}
	return Failed // a context of the limiter's own
}
