package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limiter"
	"github.com/sluice-go/sluice/partition"
)

// check asks the policies of the names for r, in order, up to the first that rejects it. It adds
// each policy that it asks to asked, for the caller to end, even if a limiter or another of the
// user's functions panics. Without wait it takes only permits that are available now.
func (t *terms) check(r *http.Request, names []string, wait bool, asked *[]ask) *Rejection {
	for _, name := range names {
		p := t.policy(name)
		if p == nil { // there is no global policy
			continue
		}
		permits := 1
		if p.Permits != nil {
			permits = p.Permits(r)
		}
		switch {
		case permits <= 0:
			continue
		case p.Limiter == nil: // bytes only
			*asked = append(*asked, ask{policy: p})
			continue
		}
		if no := t.decide(r, p, permits, wait, asked); no != nil {
			return no
		}
	}
	return nil
}

// decide asks one policy.
func (t *terms) decide(r *http.Request, p *policy, permits int, wait bool, asked *[]ask) *Rejection {
	ctx := r.Context()
	result, waited := Failed, time.Duration(0) // unless the limiter returns
	if t.Observer != nil {
		defer func() { t.Observer.Decided(ctx, p.Name, result, waited) }()
	}
	q := question{terms: t, policy: p, limiter: partition.For(p.Limiter, r), permits: permits}
	var lease core.Lease
	var err error
	if wait && p.MaxWait != 0 && !p.Shadow {
		lease, result, waited, err = q.acquire(ctx)
	} else {
		lease, result, err = q.tryAcquire()
	}
	*asked = append(*asked, ask{policy: p, limiter: q.limiter, lease: lease})
	if result == Acquired {
		if t.Observer != nil {
			(*asked)[len(*asked)-1].observe(ctx, t.Observer)
		}
		return nil
	}
	switch {
	case result == Failed:
		t.limits.failures.log(ctx, t.Logger, failed, p.Name, err)
		if p.FailOpen || p.Shadow {
			return nil
		}
	case p.Shadow:
		result = Shadowed
		t.limits.failures.log(ctx, t.Logger, shadowed, p.Name, err)
		return nil
	}
	return newRejection(t, result, *asked, err)
}

// question is what a policy's limiter is asked.
type question struct {
	terms   *terms
	policy  *policy
	limiter core.Limiter // bound to the request
	permits int
}

// tryAcquire takes the permits if they are available now.
func (q question) tryAcquire() (core.Lease, Result, error) {
	lease := q.limiter.TryAcquire(q.permits)
	if lease.Acquired() {
		return lease, Acquired, nil
	}
	err := lease.Err()
	if refused(err) {
		return lease, q.policy.refused, err
	}
	return lease, Failed, err
}

// acquire takes the permits, and waits for them for as long as the policy allows.
func (q question) acquire(ctx context.Context) (lease core.Lease, result Result, waited time.Duration, err error) {
	w := &waiting{Context: ctx, most: max(q.policy.MaxWait, 0)}
	returned := false
	defer func() {
		if !returned && lease.Acquired() { // the Observer has panicked
			limiter.Refund(q.limiter, lease)
		}
	}()
	func() {
		defer func() { waited = w.end() }()
		if o := q.terms.Observer; o != nil {
			w.queued = func(delta int) { o.Queued(ctx, q.policy.Name, delta) }
		}
		lease, err = q.limiter.Acquire(w, q.permits) //nolint:contextcheck // w is made of ctx
	}()
	returned = true
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

// ended returns how a wait came out that ended with err.
func (q question) ended(ctx context.Context, w *waiting, err error) Result {
	ended := ctx.Err()
	switch {
	case refused(err):
		return q.policy.refused
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return Failed
	case ended != nil && !errors.Is(ended, context.DeadlineExceeded):
		return RequestCanceled
	case ended != nil || w.over():
		return q.policy.refused
	}
	return Failed // a context of the limiter's own
}

// refused reports whether err is a limiter's refusal, and not its failure.
func refused(err error) bool {
	return errors.Is(err, core.ErrRejected) || errors.Is(err, core.ErrPermitsExceedLimit)
}
