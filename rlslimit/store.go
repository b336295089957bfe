package rlslimit

import (
	"context"

	"github.com/sluice-go/sluice/redislimit"
)

// watchedStore is a store that reports its replies. All limiters of a service share it, and so the circuit breaker that
// redislimit has for each store.
type watchedStore struct {
	redislimit.Store

	onReply func() // called after each call that succeeds
}

// Ready is an optional method of a Store.
func (s *watchedStore) Ready() bool {
	r, ok := s.Store.(interface{ Ready() bool })
	return ok && r.Ready()
}

// Run runs a script.
func (s *watchedStore) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	reply, err := s.Store.Run(ctx, script, keys, args...)
	if err == nil {
		s.onReply()
	}
	return reply, err
}
