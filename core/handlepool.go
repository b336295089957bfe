package core

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// handlePool keeps handles whose leases have ended for other leases. Limiters whose leases say the same
// share one: a pool takes 128 bytes for each processor, and there may be a million limiters of a kind. A
// watched limiter has its own.
type handlePool struct {
	sync.Pool
	saying saying
}

// saying is what a lease of a concurrency limiter says by its settings.
type saying struct {
	name  string
	limit int
}

func said(s *settings) saying { return saying{s.name, s.Limit} }

// handlePools are those made last: one for each hash.
var (
	handlePools [64]atomic.Pointer[handlePool]
	handleSeed  = maphash.MakeSeed()
)

// handlesOf returns the pool of a limiter with these settings.
func handlesOf(s *settings) *handlePool {
	if s.hook != nil {
		return new(handlePool)
	}
	latest := &handlePools[maphash.Comparable(handleSeed, said(s))%uint64(len(handlePools))]
	p := latest.Load()
	if p == nil || p.saying != said(s) {
		p = &handlePool{saying: said(s)}
		latest.Store(p)
	}
	return p
}
