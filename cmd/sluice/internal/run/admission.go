package run

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/core"
)

// admission is what a job waits for before each try: a machine that is not too busy, a free place among the jobs, its
// turn by the rate, and a permit of its key.
type admission struct {
	all  *core.ChainedLimiter     // without the keys
	jobs *core.ConcurrencyLimiter // part of all; nil: any number of jobs at once
	keys *keys                    // nil: no limit for each key
	slots
}

// admitted is what a job holds during a try. The zero value is nothing.
type admitted struct {
	place, key core.Lease
	slot       int // from 1
}

func newAdmission(o options) (a *admission, err error) {
	a = new(admission)
	var all []core.Limiter
	var faults []error
	add := func(l core.Limiter, err error) { all, faults = append(all, l), append(faults, err) }
	if o.load > 0 {
		add(adaptive.NewShed(adaptive.ShedOptions{
			Name: "load", Probe: busy, Above: o.load / 100, Every: time.Second, QueueLimit: math.MaxInt,
		}))
	}
	if o.jobs > 0 {
		a.jobs, err = core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
			Name: "jobs", PermitLimit: o.jobs, QueueLimit: math.MaxInt,
		})
		add(a.jobs, err)
	}
	if o.delay > 0 {
		add(core.NewTokenBucket(core.TokenBucketOptions{
			Name: "delay", TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: o.delay, QueueLimit: math.MaxInt,
		}))
	}
	add(o.rate.New("rate"))
	if o.limited() {
		a.keys, err = newKeys(o.perKey)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	a.all, err = core.Chain(all...)
	return a, err
}

// admit waits until a job may start. p is its place in the line of its key, which it leaves; nil without keys.
func (a *admission) admit(ctx context.Context, p *place) (held admitted, err error) {
	if p == nil {
		held.place, err = a.all.Acquire(ctx, 1)
	} else {
		held, err = a.admitOfKey(ctx, p)
		a.keys.leave(p)
	}
	if err == nil {
		held.slot = a.slots.take()
	}
	return held, err
}

// admitOfKey takes the key's permit last, at the instant of the start: a permit that was taken before the wait for a
// place would be as old as that wait, and the next job of the key could follow at once.
func (a *admission) admitOfKey(ctx context.Context, p *place) (admitted, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return admitted{}, ctx.Err()
	}
	for {
		if _, err := a.keys.limits.Acquire(ctx, p.key, 0); err != nil { // waits for a permit and takes none
			return admitted{}, err
		}
		place, err := a.all.Acquire(ctx, 1)
		if err != nil {
			return admitted{}, err
		}
		if own := a.keys.limits.TryAcquire(p.key, 1); own.Acquired() {
			return admitted{place: place, key: own}, nil
		}
		a.all.Refund(place) // the key's limit is a window that began anew, with less room
	}
}

// release gives back what admit returned.
func (a *admission) release(held admitted) {
	if held.slot == 0 {
		return
	}
	a.slots.give(held.slot)
	held.place.Release()
	held.key.Release()
}

// more changes how many jobs run at once, and returns the new number; 0: there is no limit.
func (a *admission) more(by int) int {
	if a.jobs == nil {
		return 0
	}
	o := a.jobs.Options()
	o.PermitLimit = max(o.PermitLimit+by, 1)
	_ = a.jobs.Update(o) // a limit of at least 1 is valid
	return o.PermitLimit
}

// busy returns the share of the machine's processors in use since the last call.
func busy() float64 {
	percent, err := cpu.Percent(0, false)
	if err != nil || len(percent) == 0 {
		return math.NaN() // Shed keeps its last value
	}
	return percent[0] / 100
}

// slots numbers the running jobs from 1: each takes the lowest free number.
type slots struct {
	mu    sync.Mutex
	taken []bool
}

func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.taken, false)
	if i < 0 {
		i = len(s.taken)
		s.taken = append(s.taken, false)
	}
	s.taken[i] = true
	return i + 1
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[n-1] = false
}
