package partition

import (
	"context"
	"sync"

	"github.com/sluice-go/sluice/core"
)

// bundler makes one lease of several, and several of one. That is what a chain of core does,
// without allocating; so it has one, of limiters that grant the leases they are handed.
type bundler struct {
	mu       sync.Mutex // guards what follows; no code of others runs under it
	chain    *core.ChainedLimiter
	granting []core.Lease
	refunded []part
}

// part is one lease of a bundle, of the limiter at link.
type part struct {
	link  int
	lease core.Lease
}

func newBundler(links int) (*bundler, error) {
	b := new(bundler)
	slots := make([]core.Limiter, links)
	for i := range slots {
		slots[i] = &slot{b, i}
	}
	var err error
	b.chain, err = core.Chain(slots...)
	return b, err
}

// bundle returns the lease of all leases, one of each link.
func (b *bundler) bundle(leases []core.Lease, permits int) core.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.granting = append(b.granting, leases...)
	l := b.chain.TryAcquire(permits)
	clear(b.granting)
	b.granting = b.granting[:0]
	return l
}

// unbundle appends what is to be refunded for a lease that bundle returned, last link first,
// as a chain of core does; nothing for any other lease.
func (b *bundler) unbundle(l core.Lease, parts []part) []part {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chain.Refund(l)
	parts = append(parts, b.refunded...)
	clear(b.refunded)
	b.refunded = b.refunded[:0]
	return parts
}

// slot is a link of the bundler's chain. It is asked under the bundler's mutex only.
type slot struct {
	b    *bundler
	link int
}

func (s *slot) TryAcquire(int) core.Lease { return s.b.granting[s.link] }

func (s *slot) Acquire(_ context.Context, permits int) (core.Lease, error) {
	l := s.TryAcquire(permits)
	return l, l.Err()
}

func (s *slot) Available() int { return 0 }

func (s *slot) Refund(l core.Lease) {
	s.b.refunded = append(s.b.refunded, part{s.link, l})
}
