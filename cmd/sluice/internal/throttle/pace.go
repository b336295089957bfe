package throttle

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
	"github.com/sluice-go/sluice/spec"
)

// pace is the limiter of the copy. A schedule and signals change its rate. It is safe for concurrent use.
//
// Two buckets keep a rate that has no windows. The mean keeps it exactly: it holds what the copy catches up on after a late
// wake-up or a pause. The peak is a quarter higher, and limits how fast the copy catches up.
type pace struct {
	*core.Switch

	mu         sync.Mutex // guards the fields below
	limit      spec.Limit
	mean, peak *core.TokenBucket // of a limit of that kind
	constant   bool              // limit has not changed since the start
}

const (
	turnTime = 8 * time.Millisecond // the permits of such a time come together: each wait wakes threads of Go's scheduler

	startTime = 2 * time.Millisecond   // the burst at the start
	burstTime = 20 * time.Millisecond  // the burst later
	owedTime  = 250 * time.Millisecond // how much the copy catches up
)

func newPace(l spec.Limit) (*pace, error) {
	p := &pace{Switch: core.NewSwitch(nil)}
	err := p.set(l)
	p.constant = true
	return p, err
}

// set applies a rate. If its kind is the same, set updates the limiter, so that no permit is granted twice.
func (p *pace) set(l spec.Limit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setLocked(l)
}

func (p *pace) setLocked(l spec.Limit) (err error) {
	switch {
	case l.Kind == spec.Unlimited:
		p.Set(nil)
	case l.Kind != spec.TokenBucket:
		waiting := l
		waiting.Queue = 1 // the copy of lines
		err = waiting.Set(p.Switch, "")
	case l.Kind == p.limit.Kind:
		mean, peak := buckets(l)
		err = errors.Join(p.mean.Update(mean), p.peak.Update(peak))
	default:
		err = p.startLocked(l)
	}
	if err == nil {
		p.limit, p.constant = l, false
	}
	return err
}

// startLocked makes the buckets of a rate.
func (p *pace) startLocked(l spec.Limit) (err error) {
	mean, peak := buckets(l)
	if p.mean, err = core.NewTokenBucket(mean); err != nil {
		return err
	}
	if p.peak, err = core.NewTokenBucket(peak); err != nil {
		return err
	}
	p.mean.TryAcquire(p.mean.Available() - max(l.Burst, permitsIn(l, startTime), 1))
	both, err := core.Chain(p.mean, p.peak)
	p.Set(both)
	return err
}

// change doubles or halves the rate, as a signal asks for, and returns the message for the terminal.
func (p *pace) change(s os.Signal) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit.Kind == spec.Unlimited {
		return "the rate is unlimited"
	}
	l := changed(p.limit, s)
	if err := p.setLocked(l); err != nil {
		return fmt.Sprintf("the rate stays: %v", err)
	}
	return fmt.Sprintf("the rate is now %v", l)
}

// current returns the rate, and whether it has been the same since the start.
func (p *pace) current() (spec.Limit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit, p.constant
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
	mean = bucket(l.Permits, l.Per, max(l.Burst, permitsIn(l, owedTime), 1), turnTime)
	peak = bucket(l.Permits, max(l.Per-l.Per/5, 1), burst(l), 10*time.Microsecond) // a quarter more
	return mean, peak
}

// bucket returns a bucket whose permits come once in about the given period, or one by one if that takes longer. The rate is
// exact, because the period of several permits is rounded up to the nanosecond.
func bucket(permits int, per time.Duration, limit int, period time.Duration) core.TokenBucketOptions {
	rate := rates.AtMost(min(max(rates.Within(permits, per, period), 1), limit), permits, per)
	return core.TokenBucketOptions{
		TokenLimit: limit, TokensPerPeriod: rate.Tokens, ReplenishmentPeriod: rate.Period,
		QueueLimit: 1, // the copy of lines
	}
}

// burst returns how many permits may be used without a wait.
func burst(l spec.Limit) int { return max(l.Burst, permitsIn(l, burstTime), 1) }

// permitsIn returns how many permits a rate gives in d, rounded down.
func permitsIn(l spec.Limit, d time.Duration) int { return rates.Within(l.Permits, l.Per, d) }
