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

// ask asks those of the policies that the request has not met, in order, up to the first
// that does not let it pass.
func (v *visit) ask(ctx context.Context, frame int32, r *http.Request, policies []*policy, wait bool) *Rejection {
	for _, p := range policies {
		i, fresh := v.enter(frame, p)
		if !fresh {
			continue
		}
		permits := 1
		if p.Permits != nil {
			permits = p.Permits(r)
		}
		if permits <= 0 {
			v.note(i, nil, core.Lease{}, passed)
			continue
		}
		if p.Limiter == nil {
			continue
		}
		// Bound, so that a refund finds the key again whatever handlers do to the request.
		q := question{visit: v, policy: p, limiter: partition.For(p.Limiter, r), permits: permits, wait: wait}
		if no := q.ask(ctx, i); no != nil {
			return no
		}
	}
	return nil
}

// question is what a policy's limiter is asked.
type question struct {
	visit   *visit
	policy  *policy
	limiter core.Limiter
	permits int
	wait    bool
}

// ask asks, notes the answer in the visit at i, and returns nil if the request may proceed.
func (q *question) ask(ctx context.Context, i int) *Rejection {
	v, o := q.visit, q.visit.terms.Observer
	lease, result, waited, err := q.answer(ctx)
	if o == nil && result == Acquired {
		v.note(i, q.limiter, lease, held)
		return nil
	}
	s := asked
	if result == Acquired {
		s = held
	}
	if o != nil {
		q.limiter = &observed{q.limiter, time.Now()}
	}
	v.note(i, q.limiter, lease, s)
	if o != nil {
		if result == Acquired {
			o.Active(ctx, q.policy.Name, +1)
		}
		o.Decided(ctx, q.policy.Name, result, waited)
	}
	switch result {
	case Acquired:
		return nil
	case Failed:
		q.policy.failures.log(ctx, v.terms.Logger, q.policy.Name, err)
		if q.policy.FailOpen {
			return nil
		}
	}
	return newRejection(v, q.policy, result, lease, err)
}

// answer asks the limiter, and says what its answer means.
func (q *question) answer(ctx context.Context) (lease core.Lease, result Result, waited time.Duration, err error) {
	over := false
	switch {
	case !q.wait:
		lease = q.limiter.TryAcquire(q.permits)
	case q.visit.terms.Observer == nil && q.policy.MaxWait == 0:
		lease, err = q.limiter.Acquire(ctx, q.permits)
	default:
		lease, over, waited, err = q.visit.await(ctx, q.policy, q.limiter, q.permits)
	}
	if err == nil && lease.Acquired() {
		return lease, Acquired, waited, nil
	}
	lease, result, err = q.judge(ctx, lease, err, over)
	return lease, result, waited, err
}

// await acquires with a context that ends with MaxWait, and tells the Observer of the wait.
// over: MaxWait is.
func (v *visit) await(ctx context.Context, p *policy, l core.Limiter, permits int) (lease core.Lease, over bool, waited time.Duration, err error) {
	w := &waiting{parent: ctx, most: p.MaxWait}
	if o := v.terms.Observer; o != nil {
		w.queued = func(delta int) { o.Queued(ctx, p.Name, delta) }
		answered := false
		defer func() {
			if !answered { // it panicked
				o.Decided(ctx, p.Name, Failed, waited)
			}
		}()
		defer func() { waited = w.end() }()
		lease, err = l.Acquire(w, permits) //nolint:contextcheck // w is made of ctx
		answered = true
	} else {
		defer w.end()
		lease, err = l.Acquire(w, permits) //nolint:contextcheck // w is made of ctx
	}
	return lease, w.over(), 0, err
}

// judge says what an answer means that is no grant: a refusal, a failure, or the end of a
// wait. over: MaxWait is.
func (q *question) judge(ctx context.Context, lease core.Lease, err error, over bool) (core.Lease, Result, error) {
	lease, err = limiter.Checked(q.limiter, lease, err)
	// Two rejections are one: a lease may make its error anew each time that it is asked.
	if own := lease.Err(); !limiter.Is(own, err) && (!errors.Is(own, core.ErrRejected) || !errors.Is(err, core.ErrRejected)) {
		lease = core.Refuse(err) // somebody else's limiter, and careless
	}
	ended := ctx.Err()
	switch {
	case errors.Is(err, core.ErrRejected), errors.Is(err, core.ErrPermitsExceedLimit):
		return lease, q.policy.refused, err
	case !q.wait || !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return lease, Failed, err
	case ended != nil && !errors.Is(ended, context.DeadlineExceeded):
		return lease, RequestCanceled, err
	case ended != nil || over:
		return lease, q.policy.refused, err
	}
	return lease, Failed, err
}
