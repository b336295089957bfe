package partition

import (
	"context"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/direct"
)

var ways = direct.Core[core.Lease]()

// A request for a live partition of a limiter of core's: the limiter is asked, and its lease
// says whether there is more to do.

func (k *Keyed[R, K]) tryAcquire(hash uint64, key K, permits int) core.Lease {
	e := k.table.find(hash, key)
	if e == nil || e.kind != rated && (e.kind == foreign || !e.call()) {
		return k.tryAcquireSlow(e, hash, key, permits)
	}
	l := e.limiter.TryAcquire(permits)
	if turn := ways.Turn(l); turn != direct.Passed && k.settle(none, e, l, turn) {
		return k.tryAcquireSlow(nil, hash, key, permits)
	}
	return l
}

func (k *Keyed[R, K]) acquire(ctx context.Context, hash uint64, key K, permits int) (core.Lease, error) {
	e := k.table.find(hash, key)
	if e == nil || e.kind != rated && (e.kind == foreign || !e.call()) {
		return k.acquireSlow(ctx, e, hash, key, permits)
	}
	l, err := e.limiter.Acquire(ctx, permits)
	if turn := ways.Turn(l); turn != direct.Passed && k.settle(ctx, e, l, turn) {
		return k.acquireSlow(ctx, nil, hash, key, permits)
	}
	return l, err
}

// tryAcquireSlow is tryAcquire for an entry that is foreign, cannot just be asked, or is nil.
func (k *Keyed[R, K]) tryAcquireSlow(e *entry[R, K], hash uint64, key K, permits int) core.Lease {
	for {
		if e == nil || e.kind != foreign || !e.enter() {
			var err error
			if e, err = k.enterSlow(none, e, hash, key); err != nil {
				return k.tryWithout(err, permits)
			}
		}
		l := e.tryEntered(permits)
		if e.kind == foreign || !k.settle(none, e, l, ways.Turn(l)) {
			return l
		}
		e = nil
	}
}

func (k *Keyed[R, K]) acquireSlow(
	ctx context.Context, e *entry[R, K], hash uint64, key K, permits int,
) (core.Lease, error) {
	for {
		if e == nil || e.kind != foreign || !e.enter() {
			var err error
			if e, err = k.enterSlow(ctx, e, hash, key); err != nil {
				return k.acquireWithout(ctx, err, permits)
			}
		}
		l, err := k.acquireEntered(ctx, e, permits)
		if e.kind == foreign || !k.settle(ctx, e, l, ways.Turn(l)) {
			return l, err
		}
		e = nil
	}
}

// tryEntered takes permits, and leaves: the limiter may panic.
func (e *entry[R, K]) tryEntered(permits int) core.Lease {
	defer e.leave()
	return e.limiter.TryAcquire(permits)
}

func (k *Keyed[R, K]) acquireEntered(ctx context.Context, e *entry[R, K], permits int) (core.Lease, error) {
	defer e.leave()
	switch {
	case e.kind != foreign:
		return e.limiter.Acquire(ctx, permits)
	case !e.closes:
		return k.acquireGuarded(ctx, e.limiter, permits, false)
	}
	l, err := e.limiter.Acquire(ctx, permits)
	return answered(e.limiter, l, err)
}

// settle does what a request that e's limiter has answered with l, of that turn, owes: its
// share of the sweeping, if it was not counted before. Or it reports that the limiter was
// closed since e was dropped: nothing was asked then, and the request has to look for another
// partition.
func (k *Keyed[R, K]) settle(ctx context.Context, e *entry[R, K], l core.Lease, turn direct.Turn) (again bool) {
	switch {
	case turn == direct.Closed && k.gone(e):
		return true
	case turn == direct.Due:
		k.share(e, l, ctx == none)
	case turn != direct.Passed && e.kind == rated:
		// Its wait may have been over, by a grant whose turn it was, when ctx ended: then
		// nobody else does that share.
		if ctx != none && ctx.Err() != nil || k.tallies[e.hash%tallies].n.Add(1)%callsPerShare == 0 {
			k.visit(visitsPerShare, nil, k.ring.told(l, ctx == none))
		}
	}
	return false
}

// share does a share of the sweeping. If somebody's code panics over it, that goes to the
// caller, and the lease, which nobody has seen, is undone. tried: see ring.told.
func (k *Keyed[R, K]) share(e *entry[R, K], l core.Lease, tried bool) {
	returned := false
	defer func() {
		if !returned {
			undo(e.limiter, l)
		}
	}()
	k.visit(visitsPerShare, nil, k.ring.told(l, tried))
	returned = true
}

// gone reports whether the entry has been dropped. The mutex is taken, as a dropper marks an
// entry when its limiter is closed already.
func (k *Keyed[R, K]) gone(e *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !e.alive()
}

// tally counts those requests of some keys that rate limiters of core's refuse, those that
// their owners closed included, or are asked by a probe: they are not counted among its grants.
type tally struct {
	n atomic.Uint64
	_ [56]byte // another's is in another line
}

// tallies is how many there are. Each loses two calls at most: that is what 4n+16 calls have
// beyond what n partitions may lose.
const tallies = 8
