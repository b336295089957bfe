package policy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/partition"
)

// decide adds a decision of p, unless p does not apply. It adds it even if a function of the user's panics.
func (a *Admission[R, O]) decide(ctx context.Context, r R, p *Policy[R, O], mode Mode) *Rejection[R, O] {
	permits := 1
	if p.Cost != nil {
		permits = p.Cost(r)
	}
	if permits <= 0 {
		return nil
	}
	a.Decisions = append(a.Decisions, Decision[R, O]{Policy: p})
	if p.Limiter == nil {
		return nil
	}
	d, s := &a.Decisions[len(a.Decisions)-1], a.Snapshot
	d.Limiter = partition.For(p.Limiter, r)
	out := outcome{result: Failed} // unless the limiter returns
	if s.Observer != nil {
		defer func() { s.Observer.Decided(ctx, p.Name, out.result, out.waited) }()
	}
	if mode == Wait && p.MaxWait != 0 && !p.Shadow {
		out = s.acquire(ctx, r, d, permits)
	} else {
		out = tryAcquire(d, permits)
	}
	switch {
	case out.result == Acquired:
		if s.Observer != nil {
			d.observe(ctx, s.Observer)
		}
		return nil
	case out.result == Failed:
		s.LogFailure(ctx, p, out.err)
		if p.FailOpen || p.Shadow {
			return nil
		}
	case p.Shadow:
		out.result = Shadowed
		s.set.log.log(ctx, s.Logger, slog.LevelWarn, logInterval, event{s.set.Package + ": a policy in shadow would have rejected", p.Name}, out.err)
		return nil
	}
	if withoutQueue(out.err) {
		s.Warn(ctx, p.Name, "MaxWait has no effect, because the limiter has no queue")
	}
	rejection := p.Rejection(out.result, d.Lease, out.err)
	rejection.Decisions = a.Decisions
	return rejection
}

// LogFailure logs that a limiter of p has failed with err, at most once a second per policy. Requests that pass because of
// FailOpen are not limited, so that is never silent.
func (s *Snapshot[R, O]) LogFailure(ctx context.Context, p *Policy[R, O], err error) {
	logger := s.Logger
	if logger == nil && p.FailOpen {
		logger = slog.Default()
	}
	s.set.log.log(ctx, logger, slog.LevelError, logInterval, event{s.set.Package + ": a limiter failed", p.Name}, err)
}

// Warn logs once in a while that something is without effect, although the options or handlers ask for it.
func (s *Snapshot[R, O]) Warn(ctx context.Context, policy, message string) {
	logger := s.Logger
	if logger == nil {
		logger = slog.Default()
	}
	s.set.log.log(ctx, logger, slog.LevelWarn, warnInterval, event{s.set.Package + ": " + message, policy}, nil)
}

// withoutQueue reports whether err is a rejection of a wait for want of a queue.
func withoutQueue(err error) bool {
	var rejected *core.RejectedError
	return errors.As(err, &rejected) && rejected.Detail == "QueueLimit is 0"
}

// outcome is the result of calling a limiter. The decision has the lease.
type outcome struct {
	result Result
	waited time.Duration
	err    error // nil if the permits were granted
}

// tryAcquire takes the permits if they are available now.
func tryAcquire[R, O any](d *Decision[R, O], permits int) outcome {
	d.Lease = d.Limiter.TryAcquire(permits)
	err := d.Lease.Err()
	switch {
	case d.Lease.Acquired():
		return outcome{result: Acquired}
	case Rejected(err):
		return outcome{result: d.Policy.Rejected, err: err}
	}
	return outcome{result: Failed, err: err}
}

// acquire takes the permits, waiting for them as long as the policy allows.
func (s *Snapshot[R, O]) acquire(ctx context.Context, r R, d *Decision[R, O], permits int) outcome {
	p := d.Policy
	if err := ctx.Err(); err != nil {
		d.Lease = core.Fail(err)
		return outcome{result: s.resultOf(ctx, p, err, false), err: err}
	}
	var quiet bool
	if d.Lease, quiet = core.TryQuietly(d.Limiter, permits); quiet {
		return outcome{result: Acquired}
	}
	if s.Observer != nil {
		s.Observer.Queued(ctx, p.Name, +1)
		defer s.Observer.Queued(ctx, p.Name, -1)
	}
	start, bounded := time.Now(), ctx
	if p.MaxWait > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, p.MaxWait)
		defer cancel()
	}
	if p.Flow != nil {
		bounded = core.WithFlow(bounded, p.Flow(r))
	}
	lease, err := d.Limiter.Acquire(bounded, permits)
	waited := time.Since(start)
	if d.Lease, err = backdoor.Checked(lease, err); err == nil {
		return outcome{result: Acquired, waited: waited}
	}
	timedOut := errors.Is(bounded.Err(), context.DeadlineExceeded)
	return outcome{s.resultOf(ctx, p, err, timedOut), waited, err}
}

// resultOf returns the result of a request whose Acquire returned err. timedOut reports whether MaxWait has passed.
func (s *Snapshot[R, O]) resultOf(ctx context.Context, p *Policy[R, O], err error, timedOut bool) Result {
	ended := ctx.Err()
	switch {
	case Rejected(err):
		return p.Rejected
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !backdoor.Same(err, ended):
		return Failed
	case ended != nil && (s.set.DeadlineCancels || !errors.Is(ended, context.DeadlineExceeded)):
		return RequestCanceled
	case ended != nil || timedOut:
		return p.Rejected
	}
	return Failed // a context of the limiter's own
}
