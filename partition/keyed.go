package partition

import (
	"context"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ending"
)

// Keyed limits each key by a limiter of its own: one per client, say. A partition is a key
// with its limiter. It is made at the key's first request and dropped once its limiter has
// been idle for a while, so that nobody can tell; there is room for a fixed number of them.
//
// The checks of a request come in [core.Limiter]'s order; then Options.Key is asked for the
// key, then the partition's limiter decides, and its lease comes back unchanged. Most
// callers want [Keyed.Acquire]; [Keyed.TryAcquire] is for those who turn requests away
// rather than let them wait. [For] gives the [core.Limiter] of one request.
//
// No goroutine and no timer runs: each request looks at a few partitions, one that waits when
// its wait has ended, and drops those whose time has come. Of n live partitions all that may
// be dropped are gone after at most 4n+16 further requests, for whatever keys. [Keyed.Sweep]
// drops them at once.
//
// A request for a live partition takes no lock of the Keyed's and allocates nothing. If its
// limiter is one of core's rate limiters, two of three such requests write to the limiter
// alone, so that requests of many cores for many keys do not meet.
//
// Keyed is a [Limiter] and a [Refunder], safe for concurrent use. Make it with [New]; the
// zero value refuses with [core.ErrClosed].
type Keyed[R any, K comparable] struct {
	o    Options[R, K] // as given, but for the defaults
	seed maphash.Seed
	open atomic.Bool // until Close; written under mu

	_     [64]byte // what follows is written when partitions come and go; what is above is not
	table table[R, K]

	_    [64]byte // the hand moves at every third request
	ring ring[R, K]

	_       [64]byte
	tallies [tallies]tally

	overflowed atomic.Uint64
	closing    ending.Source // ends the waits in limiters that Close does not close

	// mu is held for a few steps when a partition comes or goes, never while others' code
	// runs. It guards all changes of table and ring, what is below, and the change of an
	// entry's word to dead.
	mu      sync.Mutex
	making  map[K]*making
	places  int // taken: by live partitions, by those being made, and by who makes room
	created uint64
	dropped uint64
}

// Counts are the numbers of a [Keyed]'s partitions: a snapshot.
type Counts struct {
	Live       int    // there now
	Created    uint64 // so far; those whose New failed do not count
	Dropped    uint64 // so far, for idleness; Close drops none
	Overflowed uint64 // requests that found no room, whoever decided
}

// New returns a Keyed without partitions, or what is wrong with the options, all at once.
func New[R any, K comparable](o Options[R, K]) (*Keyed[R, K], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.MaxPartitions == 0 {
		o.MaxPartitions = defaultMaxPartitions
	}
	k := &Keyed[R, K]{o: o, seed: maphash.MakeSeed(), making: make(map[K]*making)}
	k.table.reset()
	k.ring.base = time.Now()
	k.ring.reset()
	k.open.Store(true)
	return k, nil
}

// TryAcquire takes permits from the limiter of r's partition if they can be had now. It does
// not wait for permits; it does wait while another request makes the partition. If the
// partition cannot be made, the lease's Err is the error of Options.New, wrapped.
func (k *Keyed[R, K]) TryAcquire(r R, permits int) core.Lease {
	if permits < 0 || !k.open.Load() {
		return core.Refuse(k.check(none, permits))
	}
	key := k.o.Key(r)
	return k.tryAcquire(k.hash(key), key, permits)
}

// Acquire takes permits from the limiter of r's partition, waiting in its queue if need be.
// The partition is not dropped meanwhile. A ctx that ends also ends the wait for another
// request that makes the partition; Options.New itself is not interrupted. Close ends the
// wait with [core.ErrClosed].
func (k *Keyed[R, K]) Acquire(ctx context.Context, r R, permits int) (core.Lease, error) {
	if err := k.check(ctx, permits); err != nil {
		return refuse(err)
	}
	key := k.o.Key(r)
	return k.acquire(ctx, k.hash(key), key, permits)
}

func (k *Keyed[R, K]) check(ctx context.Context, permits int) error {
	if err := check(ctx, permits); err != nil {
		return err
	}
	if !k.open.Load() {
		return core.ErrClosed
	}
	return nil
}

func (k *Keyed[R, K]) hash(key K) uint64 { return maphash.Comparable(k.seed, key) }

// Refund gives back permits that were acquired for r and not used, as [core.Refunder] does:
// to the limiter of r's partition, if that is live; if it was dropped there is nothing to
// give back. A lease of Overflow's goes back to Overflow. It makes no partition, and works
// after Close.
func (k *Keyed[R, K]) Refund(r R, l core.Lease) {
	if k.o.Key == nil || !l.Acquired() {
		return
	}
	key := k.o.Key(r)
	k.refund(k.hash(key), key, l)
}

// refund offers the lease to both that it may be of: each ignores what is not its own. If one
// knows no refund, or is gone, the lease may be of that one: it is released, which it is in a
// refund too, and only once.
func (k *Keyed[R, K]) refund(hash uint64, key K, l core.Lease) {
	known := false
	e := k.find(hash, key)
	if e != nil && e.kind == foreign {
		if e.pin() {
			defer e.leave()
		} else {
			e = nil
		}
	}
	if e != nil {
		known = offer(e.limiter, l)
	}
	if k.o.Overflow != nil && !offer(k.o.Overflow, l) {
		known = false
	}
	if !known {
		l.Release()
	}
}

// offer refunds a lease that may be of l's. It reports false if l knows no refund.
func offer(l core.Limiter, lease core.Lease) bool {
	r, ok := l.(core.Refunder)
	if ok {
		r.Refund(lease)
	}
	return ok
}

// Get returns the limiter of the key's partition, if that is live: to look at, or to Update.
// It makes no partition. When the partition is dropped, what was changed is lost, and a
// limiter that can be closed is closed: ask for it anew rather than keep it.
func (k *Keyed[R, K]) Get(key K) (core.Limiter, bool) {
	if k.o.Key == nil {
		return nil, false
	}
	if e := k.find(k.hash(key), key); e != nil {
		return e.limiter, true
	}
	return nil, false
}

// Statistics returns those of r's partition, and false if it is not live. It makes no
// partition. Of a limiter that is no [core.Reporter] only Available is known.
func (k *Keyed[R, K]) Statistics(r R) (core.Statistics, bool) {
	if k.o.Key == nil {
		return core.Statistics{}, false
	}
	if l, ok := k.Get(k.o.Key(r)); ok {
		return statistics(l), true
	}
	return core.Statistics{}, false
}

// All yields the live partitions, in no particular order: those that are live throughout
// once, those that come or go meanwhile perhaps. No lock is held; the body may call anything.
func (k *Keyed[R, K]) All() iter.Seq2[K, core.Limiter] {
	return func(yield func(K, core.Limiter) bool) {
		if !k.open.Load() {
			return
		}
		for e := k.ring.root.next.Load(); e != &k.ring.root && k.open.Load(); e = e.next.Load() {
			if e.alive() && !yield(e.key, e.limiter) {
				return
			}
		}
	}
}

// Len returns the number of live partitions.
func (k *Keyed[R, K]) Len() int { return int(k.ring.n.Load()) }

// Counts returns what became of the partitions so far.
func (k *Keyed[R, K]) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Counts{Live: k.Len(), Created: k.created, Dropped: k.dropped, Overflowed: k.overflowed.Load()}
}

// find returns the key's entry, or nil. It is what [table.find] is, and certain.
func (k *Keyed[R, K]) find(hash uint64, key K) *entry[R, K] {
	if e := k.table.find(hash, key); e != nil && e.alive() {
		return e
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.find(hash, key)
}
