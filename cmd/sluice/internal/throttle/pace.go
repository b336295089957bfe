package throttle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
	"github.com/sluice-go/sluice/spec"
)

// pace is the limiter of the copy. A schedule and signals change its rate. It is safe for concurrent use.
//
// Two buckets keep a rate that has no windows. The mean keeps it exactly: its bucket holds the permits of a second, so that
// the copy can catch up after a late wake-up or a slow output. The peak is a quarter higher, and limits how fast the copy
// catches up.
type pace struct {
	mu         sync.Mutex // guards the fields below
	limit      spec.Limit
	limiter    core.Limiter
	mean, peak *core.TokenBucket // that limiter chains; nil: it has windows, or is unlimited
	changed    chan struct{}     // closed when limit changes
	constant   bool              // limit has not changed since the start
}

const (
	turnTime = 8 * time.Millisecond // the permits of such a time come together: each wait wakes threads of Go's scheduler
	maxPipe  = 1 << 20              // that a user without privileges gets from Linux, by default

	startTime = 2 * time.Millisecond  // the burst at the start
	burstTime = 10 * time.Millisecond // the burst later, and how much the copy catches up after a slow source
	owedTime  = time.Second           // how much it catches up after a late wake-up or a slow output
)

func newPace(l spec.Limit) (*pace, error) {
	p := &pace{changed: make(chan struct{}), constant: true}
	err := p.replaceLocked(l)
	return p, err
}

// Acquire implements [core.Limiter]. It asks again when the rate changes. Only the copy calls it, so it needs no queue.
func (p *pace) Acquire(ctx context.Context, n int) (core.Lease, error) {
	for ctx.Err() == nil {
		l, changed := p.current()
		lease := l.TryAcquire(n)
		wait, ok := core.RetryAfter.From(lease)
		if lease.Acquired() || !ok {
			return lease, lease.Err()
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-changed:
		case <-ctx.Done():
		}
		t.Stop()
	}
	return core.Fail(ctx.Err()), ctx.Err()
}

// TryAcquire implements [core.Limiter].
func (p *pace) TryAcquire(n int) core.Lease {
	l, _ := p.current()
	return l.TryAcquire(n)
}

// Available implements [core.Limiter].
func (p *pace) Available() int {
	l, _ := p.current()
	return l.Available()
}

func (p *pace) current() (core.Limiter, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limiter, p.changed
}

// pipeSize returns how many bytes the pipes should hold: those of two turns, so that a turn is one wait.
func (p *pace) pipeSize() int {
	if limit, _ := p.only(); limit.Kind == spec.TokenBucket {
		return min(2*permitsIn(limit, turnTime), maxPipe)
	}
	return maxPipe
}

// set applies a rate. If its kind is the same, set updates the limiter, so that no permit is granted twice.
func (p *pace) set(l spec.Limit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setLocked(l)
}

func (p *pace) setLocked(l spec.Limit) (err error) {
	p.constant = false
	close(p.changed)
	p.changed = make(chan struct{})
	switch {
	case l.Kind != p.limit.Kind:
		return p.replaceLocked(l)
	case p.mean != nil:
		mean, peak := buckets(l)
		err = errors.Join(p.mean.Update(mean), p.peak.Update(peak))
	default:
		err = l.Update(p.limiter)
	}
	if err == nil {
		p.limit = l
	}
	return err
}

// replaceLocked applies a rate of another kind.
func (p *pace) replaceLocked(l spec.Limit) (err error) {
	var next core.Limiter
	var mean, peak *core.TokenBucket
	if l.Kind == spec.TokenBucket {
		m, k := buckets(l)
		if mean, err = core.NewTokenBucket(m); err != nil {
			return err
		}
		if peak, err = core.NewTokenBucket(k); err != nil {
			return err
		}
		mean.TryAcquire(mean.Available() - max(l.Burst, permitsIn(l, startTime), 1))
		next, err = core.Chain(mean, peak)
	} else {
		next, err = l.New("")
	}
	if err != nil {
		return err
	}
	p.limit, p.limiter, p.mean, p.peak = l, next, mean, peak
	return nil
}

// scale changes the rate and returns the message for the terminal.
func (p *pace) scale(change func(spec.Limit) spec.Limit) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Kind == spec.Unlimited {
		return "the rate is unlimited"
	}
	l := change(p.limit)
	if err := p.setLocked(l); err != nil {
		return fmt.Sprintf("the rate stays: %v", err)
	}
	return fmt.Sprintf("the rate is now %v", l)
}

// only returns the rate, and whether it has been the same since the start.
func (p *pace) only() (spec.Limit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit, p.constant
}

// paused drops the permits that became available while the copy waited for the source, except for a burst.
func (p *pace) paused(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mean == nil || waited < time.Millisecond {
		return
	}
	left := p.mean.Available()
	if n := left - max(burst(p.limit), left-permitsIn(p.limit, waited)); n > 0 {
		p.mean.TryAcquire(n)
	}
}

// follow returns a function that applies the rate of a schedule once it is due. Call the function every second: a timer for
// the next rate would be wrong when the clock is set, and may stop while the machine sleeps.
func (p *pace) follow(s schedule, clock func() time.Time) func() {
	current := s.at(clock())
	return func() {
		if l := s.at(clock()); l != current {
			current = l
			_ = p.set(l) // it was valid when it was read
		}
	}
}

// buckets returns the buckets of a rate.
func buckets(l spec.Limit) (mean, peak core.TokenBucketOptions) {
	mean = bucket(l.Permits, l.Per, max(l.Burst, permitsIn(l, owedTime)), turnTime)
	peak = bucket(l.Permits, max(l.Per-l.Per/5, 1), burst(l), 10*time.Microsecond) // a quarter more
	return mean, peak
}

// bucket returns a bucket whose permits come once in about the given period, or one by one if that takes longer. The rate is
// exact, because the period of several permits is rounded up to the nanosecond.
func bucket(permits int, per time.Duration, limit int, period time.Duration) core.TokenBucketOptions {
	limit = max(limit, 1)
	rate := rates.AtMost(min(max(rates.Within(permits, per, period), 1), limit), permits, per)
	return core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: rate.Tokens, ReplenishmentPeriod: rate.Period}
}

// burst returns how many permits may be used without a wait.
func burst(l spec.Limit) int { return max(l.Burst, permitsIn(l, burstTime), 1) }

// permitsIn returns how many permits a rate gives in d, rounded down.
func permitsIn(l spec.Limit, d time.Duration) int { return rates.Within(l.Permits, l.Per, d) }
