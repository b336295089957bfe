package worker

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice/core"
)

// hopefulLocked reports whether the limiter may have the permits now, by what the pool
// itself holds of them.
func (p *Pool) hopefulLocked(permits int) bool {
	e := entry{permits: max(permits, 1)}
	return p.rated || p.held+e.weight() <= p.limit.Load()
}

// takeNow gets the task its lease if it can be had now. A refusal that another time could
// turn into a grant is no error: the task then waits.
//
// A try that fails counts as a rejection in the limiter's statistics, where whoever reads
// them takes it for a task that was turned away. So, unless it is unlikely to fail, the
// limiter is asked before what it has.
func (p *Pool) takeNow(a *admitted) error {
	if a.lease.Acquired() {
		return nil
	}
	exceeds := int64(a.permits) > p.limit.Load()
	if !exceeds && p.careful() && p.limiter.Available() < max(a.permits, 1) {
		return nil
	}
	l := p.limiter.TryAcquire(a.permits)
	if l.Acquired() {
		p.calm()
		a.lease = l
		return nil
	}
	err := l.Err()
	if errors.Is(err, core.ErrRejected) {
		if exceeds {
			p.look() // the limit was raised
		} else {
			p.caution.Store(cautious)
		}
		return nil
	}
	return err
}

// cautious is how many admissions are careful after a refusal.
const cautious = 16

// careful reports whether the limiter is to be asked what it has, or waited for, since
// what the pool itself holds says too little.
func (p *Pool) careful() bool { return p.rated || p.caution.Load() > 0 }

// calm counts a careful admission.
func (p *Pool) calm() {
	if p.caution.Load() > 0 {
		p.caution.Add(-1) // racing ones may leave it at a little below 0
	}
}

// acquire gets a lease for a Submit call.
func (p *Pool) acquire(ctx context.Context, permits int, how patience) (core.Lease, error) {
	if how == tries {
		l := p.limiter.TryAcquire(permits)
		return l, l.Err()
	}
	p.mu.Lock()
	p.giveWayLocked(func() bool { return p.held <= p.limit.Load()/2 })
	hopeful := p.hopefulLocked(permits)
	p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return core.Refuse(err), err
	}
	if hopeful {
		a := admitted{entry: entry{permits: permits}}
		if err := p.takeNow(&a); err != nil || a.lease.Acquired() {
			return a.lease, err
		}
	}
	return p.acquireSlow(ctx, permits, how)
}

// acquireSlow waits in the limiter, till the pool is closed at most.
func (p *Pool) acquireSlow(ctx context.Context, permits int, how patience) (core.Lease, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(p.closing, cancel) //nolint:contextcheck // the pool's end is another matter
	defer stop()
	var l core.Lease
	var err error
	if how == persists {
		l, err = p.persist(waiting, permits)
	} else {
		l, err = p.limiter.Acquire(waiting, permits)
	}
	if !p.rated {
		p.look()
	}
	if err == nil || waiting.Err() == nil || errors.Is(err, core.ErrRejected) {
		return l, err
	}
	if err = ctx.Err(); err == nil {
		err = ErrClosed
	}
	return core.Refuse(err), err
}

// persist acquires permits for a task that the pool has accepted, or is bound to: a
// limiter that lets nobody wait, or evicts who does, is asked again when it may grant.
func (p *Pool) persist(ctx context.Context, permits int) (core.Lease, error) {
	pause := time.Millisecond
	for {
		l, err := p.limiter.Acquire(ctx, permits)
		var refused *core.RejectedError
		if err == nil || !errors.As(err, &refused) || errors.Is(err, context.DeadlineExceeded) {
			return l, err
		}
		switch {
		case refused.RetryAfter > 0:
			err = sleep(ctx, refused.RetryAfter)
		case permits <= 1:
			// A probe waits outside the queue limit till a permit is there.
			var probe core.Lease
			if probe, err = p.limiter.Acquire(ctx, 0); err == nil {
				probe.Release()
			} else if errors.Is(err, core.ErrRejected) {
				err = sleep(ctx, pause)
			}
		default:
			// Nobody tells when so many permits are there.
			err = sleep(ctx, pause)
			pause = min(2*pause, 50*time.Millisecond)
		}
		if err != nil {
			return core.Refuse(err), err
		}
	}
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// undo gives back a lease that no task ran under.
func (p *Pool) undo(l core.Lease) {
	if !l.Acquired() {
		return
	}
	if r, ok := p.limiter.(core.Refunder); ok {
		r.Refund(l)
		return
	}
	l.Release()
}
