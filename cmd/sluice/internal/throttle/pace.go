package throttle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// pace has the copy wait for its rate, which a schedule and signals change meanwhile.
//
// A rate without windows is kept by two buckets, of which each slice takes its permits. The mean is kept exactly: its
// bucket holds what comes in a second, so that what a late wake-up or a busy output has cost is made up for. The peak, a
// quarter above the mean, has that happen little by little.
type pace struct {
	nap func(time.Duration) // a short sleep of the copy

	mu      sync.Mutex // guards the fields below
	limit   spec.Limit
	limiter core.Limiter // in force; closed when one of another kind takes its place
	buckets *buckets     // that the limiter chains; nil: it has windows, or is unlimited
	changed bool         // limit is not the first one
}

type buckets struct {
	mean, peak *core.TokenBucket
	begun      bool // something has been asked for
}

const (
	sliceTime  = 4 * time.Millisecond  // what is paid for at once
	pauseTime  = 10 * time.Millisecond // what a source that was slow may make up for
	owedTime   = time.Second           // what we, or the output, may make up for
	longestNap = 10 * time.Millisecond // longer waits end at once with the copy, or when the rate changes
	mostSlice  = 1 << 20
)

func newPace(l spec.Limit) (*pace, error) {
	p := &pace{nap: newNap()}
	err := p.replaceLocked(l)
	return p, err
}

// set puts a rate in force: in place if it is of the same kind, so that nothing is granted twice.
func (p *pace) set(l spec.Limit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setLocked(l)
}

func (p *pace) setLocked(l spec.Limit) (err error) {
	p.changed = true
	switch {
	case l.Kind != p.limit.Kind:
		return p.replaceLocked(l)
	case p.buckets != nil:
		mean, peak := terms(l)
		err = errors.Join(p.buckets.mean.Update(mean), p.buckets.peak.Update(peak))
	default:
		err = l.Update(p.limiter)
	}
	if err == nil {
		p.limit = l
	}
	return err
}

// replaceLocked puts a rate of another kind in force. A copy that waits for the one before goes on with this.
func (p *pace) replaceLocked(l spec.Limit) (err error) {
	before, b := p.limiter, (*buckets)(nil)
	next := core.Limiter(nil)
	if l.Kind == spec.TokenBucket {
		if b, err = newBuckets(l); err == nil {
			next, err = core.Chain(b.mean, b.peak)
		}
	} else {
		next, err = l.New("")
	}
	if err != nil {
		return err
	}
	if p.buckets != nil {
		_ = p.buckets.mean.Close()
		_ = p.buckets.peak.Close()
	} else if c, ok := before.(io.Closer); ok {
		_ = c.Close()
	}
	p.limit, p.limiter, p.buckets = l, next, b
	return nil
}

// scale puts what change makes of the rate in force, and returns the message for the terminal.
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
	l.Queue = 0 // nothing that the user said
	return fmt.Sprintf("the rate is %v now", l)
}

// first returns the rate, if it has been in force from the beginning.
func (p *pace) first() (spec.Limit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit, !p.changed
}

// pay waits for the permits of a slice and returns how many they are.
func (p *pace) pay(ctx context.Context) (int, error) {
	for ctx.Err() == nil {
		limiter, n, lease := p.try()
		if lease.Acquired() {
			return n, nil // a lease of a rate holds nothing
		}
		wait, ok := core.RetryAfter.From(lease)
		if !ok {
			return 0, lease.Err()
		}
		if wait <= longestNap {
			p.nap(wait)
			continue
		}
		_, err := limiter.Acquire(ctx, n)
		if err == nil {
			return n, nil
		}
		changed := errors.Is(err, core.ErrClosed) || errors.Is(err, core.ErrPermitsExceedLimit)
		if !changed && ctx.Err() == nil {
			return 0, err
		}
	}
	return 0, context.Cause(ctx)
}

// try takes the permits of a slice if they are there. The slice is one of the limiter's rate.
func (p *pace) try() (core.Limiter, int, core.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slice(p.limit)
	if b := p.buckets; b != nil && !b.begun {
		b.begun = true
		b.keep(atOnce(p.limit))
	}
	return p.limiter, n, p.limiter.TryAcquire(n)
}

// paused forgets what was left unused while the source was waited for, but for what may pass at once.
func (p *pace) paused(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buckets == nil || !p.buckets.begun {
		return
	}
	allowed := p.limit.Burst
	if allowed == 0 {
		allowed = permitsIn(p.limit, pauseTime)
	}
	p.buckets.keep(max(allowed, p.buckets.mean.Available()-permitsIn(p.limit, waited)))
}

func newBuckets(l spec.Limit) (b *buckets, err error) {
	b = new(buckets)
	mean, peak := terms(l)
	if b.mean, err = core.NewTokenBucket(mean); err == nil {
		b.peak, err = core.NewTokenBucket(peak)
	}
	return b, err
}

// keep drops what is above a number of permits.
func (b *buckets) keep(permits int) {
	if n := b.mean.Available() - permits; n > 0 {
		b.mean.TryAcquire(n)
	}
}

// follow puts the schedule's rates in force, each at its time, until ctx is done. It looks at the wall clock each second,
// as that may be set, and stands still for no timer while the machine sleeps.
func (p *pace) follow(ctx context.Context, s schedule, clock func() time.Time) {
	const look = time.Second
	due := s.at(clock())
	for {
		t := time.NewTimer(min(max(s.next(clock()).Sub(clock()), 0), look))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		if l := s.at(clock()); l != due {
			due = l
			_ = p.set(l) // it was valid when it was read
		}
	}
}
