package policy

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/anylimiter"
	"github.com/sluice-go/sluice/internal/hold"
	"github.com/sluice-go/sluice/partition"
)

// Admission is a request on its way through policies. Its Snapshot is set before the first Admit. It must
// not be copied, and is for one goroutine at a time; Lease may be called by any once Admit has returned.
type Admission[R any] struct {
	Snapshot  *Snapshot[R]
	Decisions []Decision[R] // so far, of the policies that apply

	first [1]Decision[R] // where Decisions begins: most requests are under one policy
}

// Mode is which permits an Admit takes.
type Mode uint8

// The modes.
const (
	Wait  Mode = iota // waits for permits as long as each policy allows
	Try               // takes permits that are available now
	Early             // as Try, and leaves policies that allow a wait to a later Admit
)

// Rejection is a policy's decision that a request may not proceed.
type Rejection[R any] struct {
	Policy     *Policy[R]
	Lease      core.Lease // the limiter's answer: not acquired
	Result     Result
	Err        error
	RetryAfter time.Duration // 0: unknown, or never
}

// Admit has the policies of these names decide about the request, in order, up to the first that rejects
// it; without names, all policies that apply and have not decided before. It returns nil if the request may
// proceed. Otherwise, and after a panic, the caller must Undo the decisions.
func (a *Admission[R]) Admit(ctx context.Context, r R, mode Mode, names ...string) *Rejection[R] {
	if a.Decisions == nil {
		a.Decisions = a.first[:0]
	}
	before := len(a.Decisions)
	for i := 0; ; i++ {
		p, ok := a.Snapshot.at(i, names)
		switch {
		case !ok:
			return nil
		case p == nil, p.Applies != nil && !p.Applies(r), mode == Early && p.MaxWait != 0, a.decided(p, before):
			continue
		}
		if rejection := a.decide(ctx, r, p, mode); rejection != nil {
			return rejection
		}
	}
}

// decided reports whether p is a policy of the first n decisions.
func (a *Admission[R]) decided(p *Policy[R], n int) bool {
	for i := range n {
		if a.Decisions[i].Policy == p {
			return true
		}
	}
	return false
}

// decide adds a decision of p, unless p does not apply, even if a function of the user's panics.
func (a *Admission[R]) decide(ctx context.Context, r R, p *Policy[R], mode Mode) *Rejection[R] {
	permits := 1
	if p.Permits != nil {
		permits = p.Permits(r)
	}
	if permits <= 0 {
		return nil
	}
	a.Decisions = append(a.Decisions, Decision[R]{Policy: p})
	if p.Limiter == nil {
		return nil
	}
	d, s := &a.Decisions[len(a.Decisions)-1], a.Snapshot
	d.Limiter = partition.For(p.Limiter, r)
	t := try[R]{Decision: d, set: s.set, observer: s.Observer, result: Failed} // unless the limiter returns
	if s.Observer != nil {
		defer func() { s.Observer.Decided(ctx, p.Name, t.result, t.waited) }()
	}
	if mode == Wait && p.MaxWait != 0 && !p.Shadow {
		t.acquire(ctx, r, permits)
	} else {
		t.tryAcquire(permits)
	}
	switch {
	case t.result == Acquired:
		if s.Observer != nil {
			d.observe(ctx, s.Observer)
		}
		return nil
	case t.result == Failed:
		s.set.log.log(ctx, s.Logger, slog.LevelError, event{s.set.Package + ": a limiter failed", p.Name}, t.err)
		if p.FailOpen || p.Shadow {
			return nil
		}
	case p.Shadow:
		t.result = Shadowed
		s.set.log.log(ctx, s.Logger, slog.LevelWarn, event{s.set.Package + ": a policy in shadow would have rejected", p.Name}, t.err)
		return nil
	}
	rejection := &Rejection[R]{Policy: p, Lease: d.Lease, Result: t.result, Err: t.err}
	if t.result != Failed {
		rejection.RetryAfter = RetryAfter(d.Lease, t.err)
	}
	return rejection
}

// try is a request to the limiter of a decision, which gets the lease.
type try[R any] struct {
	*Decision[R]

	set      *Set[R]
	observer Observer

	result Result
	waited time.Duration
	err    error // nil: the permits were granted
}

// tryAcquire takes the permits if they are available now.
func (t *try[R]) tryAcquire(permits int) {
	t.Lease = t.Limiter.TryAcquire(permits)
	t.err = t.Lease.Err()
	switch {
	case t.Lease.Acquired():
		t.result = Acquired
	case Rejected(t.err):
		t.result = t.Policy.Rejected
	}
}

// acquire takes the permits, and waits for them as long as the policy allows.
func (t *try[R]) acquire(ctx context.Context, r R, permits int) {
	if t.err = ctx.Err(); t.err != nil {
		t.Lease = core.Refuse(t.err)
		t.result = t.ended(ctx, false)
		return
	}
	if lease, ok := core.TryQuietly(t.Limiter, permits); ok {
		t.Lease, t.result = lease, Acquired
		return
	}
	if t.observer != nil {
		t.observer.Queued(ctx, t.Policy.Name, +1)
		defer t.observer.Queued(ctx, t.Policy.Name, -1)
	}
	begun, bounded := time.Now(), ctx
	if t.Policy.MaxWait > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, t.Policy.MaxWait)
		defer cancel()
	}
	if t.Policy.Flow != nil {
		bounded = core.WithFlow(bounded, t.Policy.Flow(r))
	}
	t.Lease, t.err = t.Limiter.Acquire(bounded, permits)
	t.waited = time.Since(begun)
	if t.Lease, t.err = hold.Checked(t.Limiter, t.Lease, t.err); t.err == nil {
		t.result = Acquired
		return
	}
	t.result = t.ended(ctx, errors.Is(bounded.Err(), context.DeadlineExceeded))
}

// ended returns the result of a request that ended with t.err; over reports whether MaxWait is over.
func (t *try[R]) ended(ctx context.Context, over bool) Result {
	ended := ctx.Err()
	switch {
	case Rejected(t.err):
		return t.Policy.Rejected
	case !errors.Is(t.err, context.Canceled) && !errors.Is(t.err, context.DeadlineExceeded) && !anylimiter.Same(t.err, ended):
		return Failed
	case ended != nil && (t.set.DeadlineCancels || !errors.Is(ended, context.DeadlineExceeded)):
		return RequestCanceled
	case ended != nil || over:
		return t.Policy.Rejected
	}
	return Failed // a context of the limiter's own
}

// Lease returns one lease for those of all decisions, with the permits of the one that took most; false if
// there is none. Of the metadata of a name the first decision's counts.
func (a *Admission[R]) Lease() (core.Lease, bool) {
	if len(a.Decisions) == 1 && a.Decisions[0].active == nil {
		return a.Decisions[0].Lease, a.Decisions[0].Lease.Acquired()
	}
	permits, found := 0, false
	var union []core.Metadata
	for _, d := range slices.Backward(a.Decisions) { // Grant has the later win
		lease := d.Lease
		if !lease.Acquired() {
			continue
		}
		found = true
		permits = max(permits, lease.Permits())
		for name, value := range lease.Metadata() {
			union = append(union, core.NewMetadataKey[any](name).With(value))
		}
	}
	if !found {
		return core.Lease{}, false
	}
	return core.Grant(permits, func() { a.End(nil) }, union...), true
}

// Undo gives all permits back, those of rate limiters too. There are no decisions then.
func (a *Admission[R]) Undo() {
	decisions := a.Decisions
	a.Decisions = nil
	end(decisions, (*Decision[R]).Refund)
}

// End releases all leases. settle, unless it is nil, is called for each before, and may Settle or Refund it.
func (a *Admission[R]) End(settle func(*Decision[R])) { end(a.Decisions, settle) }

// end ends the decisions, last first, all of them even if a function panics.
func end[R any](decisions []Decision[R], settle func(*Decision[R])) {
	n := len(decisions)
	if n == 0 {
		return
	}
	defer end(decisions[:n-1], settle)
	d := &decisions[n-1]
	defer d.release()
	if settle != nil && d.Lease.Acquired() {
		settle(d)
	}
}
