// Package rate has the API of golang.org/x/time/rate that its tests use, over a
// core.TokenBucket, so that they can run with ours. It works in a bubble of testing/synctest:
// a time that a test names is reached by waiting for it.
package rate

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Limit is a rate in events a second.
type Limit float64

// Inf allows everything, and InfDuration is longer than any wait.
const (
	Inf         = Limit(math.MaxFloat64)
	InfDuration = time.Duration(math.MaxInt64)
)

// Every returns the rate of one event every d, Inf for d of 0 or less.
func Every(d time.Duration) Limit {
	if d <= 0 {
		return Inf
	}
	return 1 / Limit(d.Seconds())
}

// InBubble runs a test in a bubble.
func InBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// Limiter is a token bucket; bucket is nil without a limit.
type Limiter struct {
	bucket *core.TokenBucket

	base time.Time // the first time that the test named
	at   time.Time // when that was, in the bubble

	// What a test logs.
	tokens          float64
	last, lastEvent time.Time
}

// NewLimiter returns a full bucket of burst tokens. A rate of 0 refills it after InfDuration.
func NewLimiter(r Limit, burst int) *Limiter {
	if r == Inf {
		return new(Limiter)
	}
	bucket, err := core.NewTokenBucket(options(r, burst))
	if err != nil {
		panic(err)
	}
	return &Limiter{bucket: bucket}
}

func options(r Limit, burst int) core.TokenBucketOptions {
	period := InfDuration
	if d := float64(time.Second) / float64(r); d < math.MaxInt64 {
		period = time.Duration(math.Round(d))
	}
	return core.Every(period, burst)
}

// advance waits until the time t, unless it has passed.
func (lim *Limiter) advance(t time.Time) {
	if lim.base.IsZero() {
		lim.base, lim.at = t, time.Now()
	}
	timer := time.NewTimer(time.Until(lim.at.Add(t.Sub(lim.base))))
	<-timer.C
	synctest.Wait()
}

// Allow takes a token if there is one.
func (lim *Limiter) Allow() bool { return lim.bucket.TryAcquire(1).Acquired() }

// AllowN takes n tokens if they are there at t. To take none is always allowed.
func (lim *Limiter) AllowN(t time.Time, n int) bool {
	lim.advance(t)
	return n == 0 || lim.bucket.TryAcquire(n).Acquired()
}

// TokensAt returns the tokens at t, minus those that are reserved.
func (lim *Limiter) TokensAt(t time.Time) float64 {
	lim.advance(t)
	st := lim.bucket.Statistics()
	return float64(st.Available - st.Queued)
}

// SetLimit changes the rate now.
func (lim *Limiter) SetLimit(r Limit) { lim.update(options(r, lim.bucket.Options().TokenLimit)) }

// SetLimitAt changes the rate at t.
func (lim *Limiter) SetLimitAt(t time.Time, r Limit) {
	lim.advance(t)
	lim.SetLimit(r)
}

// SetBurstAt changes the size of the bucket at t.
func (lim *Limiter) SetBurstAt(t time.Time, burst int) {
	lim.advance(t)
	o := lim.bucket.Options()
	o.TokenLimit = burst
	lim.update(o)
}

func (lim *Limiter) update(o core.TokenBucketOptions) {
	if err := lim.bucket.Update(o); err != nil {
		panic(err)
	}
}

// Reservation is a lease of Reserve.
type Reservation struct {
	ok        bool
	timeToAct time.Time

	lim   *Limiter
	lease core.Lease
}

func (lim *Limiter) reserveN(t time.Time, n int, most time.Duration) Reservation {
	lim.advance(t)
	lease := lim.bucket.Reserve(n)
	delay, ok := core.Delay.From(lease)
	switch {
	case !ok:
		return Reservation{}
	case delay > most:
		lease.Refund()
		return Reservation{}
	}
	return Reservation{ok: true, timeToAct: t.Add(delay), lim: lim, lease: lease}
}

// CancelAt refunds the reserved tokens, unless t is too late.
func (r *Reservation) CancelAt(t time.Time) {
	if !r.ok {
		return
	}
	r.lim.advance(t)
	if !r.timeToAct.Before(t) {
		r.lease.Refund()
	}
}

// WaitN waits for n tokens.
func (lim *Limiter) WaitN(ctx context.Context, n int) error {
	_, err := lim.bucket.Acquire(ctx, n)
	return err
}

// wait waits for n tokens by the clock of the test, which moves when advance is called.
func (lim *Limiter) wait(ctx context.Context, n int, t time.Time, newTimer func(time.Duration) (<-chan time.Time, func() bool, func())) error {
	if lim.bucket == nil {
		return ctx.Err()
	}
	lim.advance(t)
	if err := ctx.Err(); err != nil {
		return err
	}
	lease := lim.bucket.TryAcquire(n)
	if lease.Acquired() {
		return nil
	}
	d, _ := core.RetryAfter.From(lease)
	ended := make(chan error, 1)
	go func() { ended <- lim.WaitN(ctx, n) }()
	synctest.Wait()
	select {
	case err := <-ended:
		return err
	default:
	}
	due, _, advance := newTimer(d)
	advance()
	synctest.Wait()
	select {
	case <-due:
		return <-ended
	default:
	}
	if ctx.Err() == nil {
		return errors.New("nothing is due")
	}
	return <-ended
}
