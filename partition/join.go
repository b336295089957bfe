package partition

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// joiner makes one lease of several, and several of one. A core.ChainedLimiter does that and
// allocates nothing, so a joiner has some, whose parts grant the leases that they are handed.
// It has one for each processor, so that requests do not wait for each other.
type joiner []joint

// joint is a chain of core's that takes turns.
type joint struct {
	mu    sync.Mutex // guards what follows; no user's code runs under it
	chain *core.ChainedLimiter
	parts []core.Lease // on their way into the chain, or out of it
	_     [64]byte     // the next one is in another cache line
}

func newJoiner(parts int) (joiner, error) {
	j := make(joiner, runtime.GOMAXPROCS(0))
	for i := range j {
		slots := make([]core.Limiter, parts)
		for part := range slots {
			slots[part] = &slot{&j[i], part}
		}
		chain, err := core.Chain(slots...)
		if err != nil {
			return nil, err
		}
		j[i].chain, j[i].parts = chain, make([]core.Lease, parts)
	}
	return j, nil
}

// join returns the lease of permits that stands for all parts: its Release releases them, last
// first.
func (j joiner) join(parts []core.Lease, permits int) core.Lease {
	t := &j[rand.IntN(len(j))]
	t.mu.Lock()
	defer t.mu.Unlock()
	copy(t.parts, parts)
	l := t.chain.TryAcquire(permits)
	clear(t.parts)
	return l
}

// split appends to buffer the parts of a lease that join returned, and uses the lease up. A
// lease that is spent, or that join did not return, has no parts.
func (j joiner) split(buffer []core.Lease, l core.Lease) []core.Lease {
	for i := range j {
		if parts := j[i].split(buffer, l); len(parts) > 0 {
			return parts
		}
	}
	return nil
}

func (t *joint) split(buffer []core.Lease, l core.Lease) []core.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chain.Refund(l)
	if !t.parts[0].Acquired() {
		return nil
	}
	buffer = append(buffer, t.parts...)
	clear(t.parts)
	return buffer
}

// slot is a limiter of a joint's chain. The joint's mutex is held when it is asked.
type slot struct {
	t    *joint
	part int
}

func (s *slot) TryAcquire(int) core.Lease { return s.t.parts[s.part] }

func (s *slot) Acquire(_ context.Context, permits int) (core.Lease, error) {
	l := s.TryAcquire(permits)
	return l, l.Err()
}

func (s *slot) Available() int { return 0 }

// Refund takes the part out of the chain. It is not undone yet.
func (s *slot) Refund(l core.Lease) { s.t.parts[s.part] = l }
