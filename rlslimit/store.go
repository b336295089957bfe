package rlslimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/redislimit"
)

// store is a store that is not asked, except for a trial now and then, while it does not answer. Each limiter knows only its own
// calls; for a million keys that would be a million calls that wait.
type store struct {
	redislimit.Store

	timeout  time.Duration
	answered func() // called after each call that succeeds
	base     time.Time
	since    atomic.Int64          // when the first call began that has not been answered since the latest answer, since base; 0 if all were
	trial    atomic.Int64          // when the latest trial began
	failure  atomic.Pointer[error] // the latest
}

const (
	silentFor  = 3 // timeouts, because one call may be late
	trialEvery = 50 * time.Millisecond
)

var errAway = errors.New("the store has not answered lately")

// Ready reports whether the store answers without making a connection first, as far as is known.
func (s *store) Ready() bool {
	r, ok := s.Store.(interface{ Ready() bool })
	return ok && r.Ready()
}

// Run runs a script.
func (s *store) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	now := int64(time.Since(s.base)) + 1
	if since := s.since.Load(); since == 0 {
		s.since.CompareAndSwap(0, now)
	} else if now-since > silentFor*int64(s.timeout) {
		last := s.trial.Load()
		if now-last < int64(trialEvery) && last != 0 || !s.trial.CompareAndSwap(last, now) {
			if err := s.failure.Load(); err != nil {
				return nil, *err
			}
			return nil, errAway
		}
	}
	reply, err := s.Store.Run(ctx, script, keys, args...)
	if err != nil {
		if ctx.Err() == nil {
			s.failure.Store(&err)
		}
		return reply, err
	}
	s.since.Store(0)
	s.failure.Store(nil)
	s.answered()
	return reply, nil
}
