package throttle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// governor is the rate in force, which a schedule and signals change while the copy runs.
type governor struct {
	run   context.Context //nolint:containedctx // that of the whole program
	alarm *alarm          // ends the wait for permits when the rate changes, or the program ends

	mu      sync.Mutex
	limit   spec.Limit
	pace    *pace        // nil: limiter
	limiter core.Limiter // of what is no bucket
	timer   *time.Timer  // the schedule's; nil: none
}

func newGovernor(ctx context.Context, l spec.Limit) (*governor, error) {
	a, err := newAlarm()
	if err != nil {
		return nil, err
	}
	g := &governor{run: ctx, alarm: a}
	context.AfterFunc(ctx, a.ring)
	err = g.set(l)
	return g, err
}

// set puts a rate in force: in place if it is of the same kind, so that nothing is granted twice.
func (g *governor) set(l spec.Limit) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.setLocked(l)
}

func (g *governor) setLocked(l spec.Limit) (err error) {
	bucket := l.Kind == spec.TokenBucket
	switch same := l.Kind == g.limit.Kind; {
	case bucket && same && g.pace != nil:
		err = g.pace.update(l)
	case bucket:
		g.pace, err = newPace(l)
	case same && g.limiter != nil:
		err = l.Update(g.limiter)
	default:
		g.pace = nil
		g.limiter, err = l.New("")
	}
	if err == nil {
		g.limit = l
		g.alarm.ring()
	}
	return err
}

// scale puts what change makes of the rate in force and says so.
func (g *governor) scale(change func(spec.Limit) spec.Limit) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit.Kind == spec.Unlimited {
		return "the rate is unlimited"
	}
	l := change(g.limit)
	if err := g.setLocked(l); err != nil {
		return fmt.Sprintf("the rate stays: %v", err)
	}
	l.Queue = 0 // nothing that the user said
	return fmt.Sprintf("the rate is %v now", l)
}

// now returns the rate in force.
func (g *governor) now() spec.Limit {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit
}

// pay waits for a slice of permits and returns how many they are.
func (g *governor) pay() (int, error) {
	for {
		k, lease := g.take()
		if lease.Acquired() {
			return k, nil // a rate's lease holds nothing
		}
		wait, ok := core.RetryAfter.From(lease)
		if !ok {
			return 0, lease.Err()
		}
		if g.run.Err() != nil {
			return 0, context.Cause(g.run)
		}
		g.alarm.sleep(wait)
	}
}

func (g *governor) take() (int, core.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := slice(g.limit)
	if g.pace != nil {
		return k, g.pace.take(g.limit, k)
	}
	return k, g.limiter.TryAcquire(k)
}

// paused tells that the source was waited for.
func (g *governor) paused(waited time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pace != nil {
		g.pace.paused(g.limit, waited)
	}
}

// follow puts the schedule's rates in force, each at its time.
func (g *governor) follow(s schedule) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if err := g.setLocked(s.at(now)); err != nil {
		return err
	}
	g.timer = time.AfterFunc(s.next(now).Sub(now), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		now := time.Now()
		_ = g.setLocked(s.at(now)) // it was valid when it was read
		g.timer.Reset(s.next(now).Sub(now))
	})
	return nil
}

func (g *governor) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
}
