package throttle

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// governor is the rate in force, which a schedule and signals change while the copy runs.
type governor struct {
	run context.Context //nolint:containedctx // that of the whole program

	mu      sync.Mutex
	limit   spec.Limit
	limiter core.Limiter
	term    context.Context //nolint:containedctx // ends when limiter gives way to another
	end     context.CancelFunc
	timer   *time.Timer // the schedule's; nil: none
}

func newGovernor(ctx context.Context, l spec.Limit) (*governor, error) {
	g := &governor{run: ctx}
	err := g.set(l)
	return g, err
}

// set puts a rate in force: in place if it is of the same kind, so that nothing is granted twice.
func (g *governor) set(l spec.Limit) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.setLocked(l)
}

func (g *governor) setLocked(l spec.Limit) error {
	if g.limiter != nil {
		if err := l.Update(g.limiter); !errors.Is(err, spec.ErrKind) {
			if err == nil {
				g.limit = l
			}
			return err
		}
	}
	limiter, err := l.New("")
	if err != nil {
		return err
	}
	if g.end != nil {
		g.end()
	}
	g.limit, g.limiter = l, limiter
	g.term, g.end = context.WithCancel(g.run)
	return nil
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

// pay waits for at most n permits, at least 1, and returns how many it got.
func (g *governor) pay(n int) (int, error) {
	for {
		g.mu.Lock()
		limit, limiter, term := g.limit, g.limiter, g.term
		g.mu.Unlock()
		k := min(n, slice(limit))
		_, err := limiter.Acquire(term, k) // a rate's lease holds nothing
		switch {
		case err == nil:
			return k, nil
		case g.run.Err() != nil:
			return 0, context.Cause(g.run)
		case term.Err() != nil, errors.Is(err, core.ErrPermitsExceedLimit):
			// The rate has changed: ask the new one.
		default:
			return 0, err
		}
	}
}

const (
	sliceTime = 2 * time.Millisecond // a sleep takes at least one
	mostSlice = 1 << 20
)

// slice is how much is paid for at once: what comes in a short time, so that the output is smooth.
func slice(l spec.Limit) int {
	switch l.Kind {
	case spec.Unlimited:
		return mostSlice
	case spec.TokenBucket:
		burst := l.Burst
		if burst == 0 {
			burst = permitsIn(l, 10*time.Millisecond)
		}
		return max(min(permitsIn(l, sliceTime), burst/2, mostSlice), 1)
	}
	return max(min(l.Permits/1000, mostSlice), 1) // a window's are there at once
}

// permitsIn returns how many permits a rate gives in d, rounded down.
func permitsIn(l spec.Limit, d time.Duration) int {
	hi, lo := bits.Mul64(uint64(l.Permits), uint64(d))
	if hi >= uint64(l.Per) {
		return mostSlice
	}
	n, _ := bits.Div64(hi, lo, uint64(l.Per))
	return int(min(n, mostSlice))
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
