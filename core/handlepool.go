package core

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// handlePool keeps handles whose leases have ended for other leases: those of concurrency limiters, and the
// joined handles of chains. All whose leases say the same share one, as a pool takes 128 bytes for each
// processor, and there may be a million limiters of a kind. A watched limiter has its own.
type handlePool struct {
	sync.Pool
	of saying
}

// saying is what a lease says by its settings, and how many parts it has.
type saying struct {
	name   string
	limit  int
	window int64
	parts  int
}

// saying is that of a lease of a concurrency limiter.
func (s *settings) saying() saying { return saying{name: s.name, limit: s.Limit} }

// handlePools are the pools that were made last: one for each hash.
var (
	handlePools [64]atomic.Pointer[handlePool]
	handleSeed  = maphash.MakeSeed()
)

// handlesOf returns the pool for leases that say that.
func handlesOf(s saying) *handlePool {
	latest := &handlePools[maphash.Comparable(handleSeed, s)%uint64(len(handlePools))]
	p := latest.Load()
	if p == nil || p.of != s {
		p = &handlePool{of: s}
		latest.Store(p)
	}
	return p
}
