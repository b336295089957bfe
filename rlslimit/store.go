package rlslimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/redislimit"
)

// store is a circuit breaker around a store: while the store does not reply, it lets only a probe through now and then. A
// limiter knows only of its own calls; for a million keys that would be a million calls that wait.
type store struct {
	redislimit.Store

	timeout  time.Duration
	answered func() // called after each call that succeeds
	base     time.Time
	since    atomic.Int64          // when the first call began that failed since the latest reply, since base; 0 if none did
	probe    atomic.Int64          // when the latest probe began
	failure  atomic.Pointer[error] // the latest; nil after a reply
}

const (
	silentFor  = 3 // timeouts, because one call may be late
	probeEvery = 50 * time.Millisecond
)

var errSilent = errors.New("no reply lately")

// Ready reports whether the store, as far as is known, replies without making a connection first.
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
		last := s.probe.Load()
		if now-last < int64(probeEvery) && last != 0 || !s.probe.CompareAndSwap(last, now) {
			if err := s.failure.Load(); err != nil {
				return nil, *err
			}
			return nil, errSilent
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
