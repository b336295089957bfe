package throttle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// pace is the limiter of the copy. A schedule and signals change its limits. It is safe for concurrent use.
//
// Each rate has two buckets. The mean keeps it exactly: it holds what the copy catches up on after a late wake-up or a pause. The peak
// is a quarter higher, and limits how fast the copy catches up.
type pace struct {
	*core.Switch

	pause func(context.Context, time.Duration) // a short wait; it may end before its time

	mu       sync.Mutex // guards the fields below
	limits   spec.Limits
	parts    []core.Limiter // parts of limits, in the order of [options]
	constant bool           // limits have not changed since the start
}

const (
	turnTime = 10 * time.Millisecond // the permits of such a time come together, so that a copy makes 100 turns a second

	startTime = 2 * time.Millisecond   // the burst at the start
	burstTime = 20 * time.Millisecond  // the burst later
	owedTime  = 250 * time.Millisecond // how much the copy catches up
)

func newPace(limits spec.Limits) (*pace, error) {
	p := &pace{Switch: core.NewSwitch(nil), pause: func(ctx context.Context, d time.Duration) { cli.Sleep(ctx, d) }}
	err := p.set(limits)
	p.constant = true
	return p, err
}

// take waits for permits for up to n bytes. It takes those of a turn at once, or more if they are available, so that a fast copy waits
// seldom, and its slices are large.
func (p *pace) take(ctx context.Context, n int) (core.Lease, error) {
	for {
		if err := ctx.Err(); err != nil {
			return core.Lease{}, err
		}
		k := min(n, p.turn())
		lease := p.TryAcquire(k)
		if lease.Acquired() {
			return lease, nil
		}
		if after, ok := core.RetryAfter.From(lease); ok && after <= burstTime {
			p.pause(ctx, after)
			continue
		}
		lease, err := p.Acquire(ctx, k)                  // which notices at once that the rate changes
		if !errors.Is(err, core.ErrPermitsExceedLimit) { // otherwise the rate has become lower in the meantime
			return lease, err
		}
	}
}

// turn returns for how many bytes the copy asks next, at least 1: all that are available, or what each rate gives in turnTime, of
// which no more than what is left of a window.
func (p *pace) turn() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn, free := math.MaxInt, math.MaxInt
	i := 0 // index of the part
	for _, l := range p.limits {
		switch l.Kind {
		case spec.Unlimited:
			continue
		case spec.TokenBucket:
			free = min(free, p.parts[i].Available(), p.parts[i+1].Available())
			turn = min(turn, permitsIn(l, turnTime), burst(l))
			i += 2
			continue
		case spec.Paused:
			free = 0
		default:
			left := p.parts[i].Available()
			free, turn = min(free, left), min(turn, left)
		}
		i++
	}
	return max(turn, free, 1)
}

// set applies limits. A limiter whose kind is the same stays, so that no permit is granted twice.
func (p *pace) set(limits spec.Limits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setLocked(limits)
}

func (p *pace) setLocked(limits spec.Limits) error {
	var parts []core.Limiter
	apply := func(o core.Options) (made bool, err error) {
		var now core.Limiter
		if n := len(parts); n < len(p.parts) {
			now = p.parts[n]
		}
		l, err := core.Apply(now, o)
		parts = append(parts, l)
		return l != now, err
	}
	for _, l := range limits {
		var err error
		switch l.Kind {
		case spec.Unlimited:
		case spec.Paused:
			parts = append(parts, core.Paused())
		case spec.TokenBucket:
			mean, peak := buckets(l)
			var made bool
			if made, err = apply(mean); err == nil {
				_, err = apply(peak)
			}
			if err == nil && made {
				first := parts[len(parts)-2]
				first.TryAcquire(first.Available() - max(l.Burst, permitsIn(l, startTime), 1))
			}
		default:
			l.Queue = math.MaxInt // the copy waits
			var o core.Options
			if o, err = l.Options(""); err == nil {
				_, err = apply(o)
			}
		}
		if err != nil {
			return err
		}
	}
	if !slices.Equal(parts, p.parts) {
		var all core.Limiter
		if len(parts) > 0 {
			chain, err := core.Chain(parts...)
			if err != nil {
				return err
			}
			all = chain
		}
		p.Set(all)
	}
	p.limits, p.parts, p.constant = limits, parts, false
	return nil
}

// change doubles or halves the rate, as a signal asks for, and returns the message for the terminal.
func (p *pace) change(s os.Signal) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cli.Unlimited(p.limits) {
		return "the rate is unlimited"
	}
	limits := slices.Clone(p.limits)
	for i, l := range limits {
		limits[i] = changed(l, s)
	}
	if err := p.setLocked(limits); err != nil {
		return fmt.Sprintf("the rate stays: %v", err)
	}
	return fmt.Sprintf("the rate is now %v", limits)
}

// current returns the limits, and whether they have been the same since the start.
func (p *pace) current() (spec.Limits, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits, p.constant
}

// follow returns a function that applies the rate of a schedule once it is due. Call the function every second: a timer for
// the next rate would be wrong when the clock is set, and may stop while the machine sleeps.
func (p *pace) follow(s schedule, clock func() time.Time) func() {
	current := s.at(clock())
	return func() {
		if l := s.at(clock()); !slices.Equal(l, current) {
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

// bucket returns a bucket whose permits become available once in about the given period, or one by one if that takes longer.
// The rate is exact, because the period of several permits is rounded up to the nanosecond.
func bucket(permits int, per time.Duration, limit int, period time.Duration) core.TokenBucketOptions {
	tokens := min(max(within(permits, per, period), 1), limit)
	return core.TokenBucketOptions{
		TokenLimit: limit, TokensPerPeriod: tokens,
		ReplenishmentPeriod: time.Duration(mulDiv(uint64(tokens), uint64(per), uint64(permits)-1, uint64(permits))),
		QueueLimit:          math.MaxInt, // the copy waits
	}
}

// burst returns how many permits may be used without a wait.
func burst(l spec.Limit) int { return max(l.Burst, permitsIn(l, burstTime), 1) }

// permitsIn returns how many permits a rate gives in d, rounded down.
func permitsIn(l spec.Limit, d time.Duration) int { return within(l.Permits, l.Per, d) }

// within returns how many of n permits in per come in d, rounded down.
func within(n int, per, d time.Duration) int {
	return int(min(mulDiv(uint64(n), uint64(d), 0, uint64(per)), math.MaxInt))
}

// mulDiv returns (a*b + add) / c, at most math.MaxInt64.
func mulDiv(a, b, add, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, add, 0)
	if hi += carry; hi >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, math.MaxInt64)
}
