package rlslimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/redislimit"
)

// breaker is a store that is not asked, but for a trial now and then, while it does not answer. Each limiter knows that of
// its own calls; for a million keys that would be a million calls that wait.
type breaker struct {
	redislimit.Store

	budget time.Duration
	base   time.Time
	since  atomic.Int64 // when the first call began that was not answered since the latest answer, since base; 0: all were
	trial  atomic.Int64 // when the latest trial began
}

const (
	silentFor  = 3 // budgets, since one call may be late
	trialEvery = 50 * time.Millisecond
)

var errAway = errors.New("the store has not answered lately")

// Ready reports whether the store answers without making a connection first, as far as is known.
func (b *breaker) Ready() bool {
	r, ok := b.Store.(interface{ Ready() bool })
	return ok && r.Ready()
}

// Run runs a script.
func (b *breaker) Run(ctx context.Context, s *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	now := int64(time.Since(b.base)) + 1
	if since := b.since.Load(); since == 0 {
		b.since.CompareAndSwap(0, now)
	} else if now-since > silentFor*int64(b.budget) {
		last := b.trial.Load()
		if now-last < int64(trialEvery) && last != 0 || !b.trial.CompareAndSwap(last, now) {
			return nil, errAway
		}
	}
	reply, err := b.Store.Run(ctx, s, keys, args...)
	if err == nil {
		b.since.Store(0)
	}
	return reply, err
}
