package partition

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/wait"
)

// Keyed limits each key by its own limiter, for example one per client. A partition is a key
// with its limiter. It is created at the key's first request and dropped when its limiter has been
// idle for a while, which makes no difference to later requests. The number of partitions is
// bounded.
//
// A request is first checked as described at [core.Limiter]. Then Options.Key returns its key,
// and the limiter of that key's partition decides; its lease is returned unchanged. Most
// callers want [Keyed.Acquire]. [Keyed.TryAcquire] is for callers that reject requests instead
// of letting them wait. [For] returns a [core.Limiter] for one request.
//
// There is no goroutine and no timer. Some requests, chosen at random, look at a few partitions
// and drop the ones that are due: among n live partitions, all that may be dropped are gone after
// about 4n+64 further requests, on average, whatever the keys of these requests. [Keyed.Sweep]
// drops them immediately.
//
// A request for a live partition allocates nothing beyond what Options.Key allocates.
//
// Keyed is a [Limiter], a [Refunder] and a [Settler], safe for concurrent use. Make it with
// [New]; requests to the zero value fail with [core.ErrClosed].
type Keyed[R any, K comparable] struct {
	o    Options[R, K] // as given, but for the defaults
	base time.Time     // instants are counted from here
	open atomic.Bool   // until Close; written under mu
	live sync.Map      // the live partitions: K to *entry[R, K]; written under mu

	overflow *entry[R, K] // not in live: it decides for the keys for which there is no room

	_ [64]byte // each call reads the fields above, and sweeps write those below: see LiveKeyAllCores in bench

	overflowed atomic.Uint64
	sweeps     sweeps
	closing    wait.Source // ends the waits in limiters that Close does not close

	// mu is held for a few steps when a partition comes or goes, never while a user's code
	// runs. A limiter's mutex may be taken under it. It guards what follows, and the dropped
	// bit of all entries.
	mu       sync.Mutex
	table    table[R, K]
	creating map[K]chan struct{} // the keys whose New is running; nil until a request waits for it, then closed at its end
	places   int                 // taken by live partitions and by those being created
	counts   Counts              // Created and Dropped only
}

// Counts are the counts of a [Keyed] at one instant.
type Counts struct {
	Live       int    // now
	Created    uint64 // so far; a partition whose New failed does not count
	Dropped    uint64 // so far, for being idle; Close drops none
	Overflowed uint64 // requests of keys for which there was no room, granted or not
}

// New returns a Keyed without partitions, or an error that reports all invalid options.
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
	o.IdleTimeout = min(o.IdleTimeout, math.MaxInt64/4)   // may be added to an instant
	o.MaxPartitions = min(o.MaxPartitions, math.MaxInt32) // fits an entry's slot
	k := &Keyed[R, K]{o: o, base: time.Now(), creating: make(map[K]chan struct{})}
	inner := bound(&refuser{k.noRoom})
	if o.Overflow != nil {
		inner = complete(o.Overflow)
	}
	k.overflow = &entry[R, K]{k: k, limiter: inner, closes: o.Overflow == nil}
	k.open.Store(true)
	return k, nil
}

// ByKey returns a Keyed whose requests are their keys, with the default options. newLimiter makes a key's
// limiter: see Options.New.
func ByKey[K comparable](newLimiter func(K) (core.Limiter, error)) (*Keyed[K, K], error) {
	return New(Options[K, K]{Key: func(key K) K { return key }, New: newLimiter})
}

// Get returns the limiter of the key's partition, to inspect or update it, and whether the
// partition is live. It does not create a partition. When the partition is dropped, its limiter
// is closed and updates to it fail with [core.ErrClosed], so call Get each time instead of keeping
// the limiter. A partition is live once Options.New has returned. If limits change while New
// runs, New may have seen the old ones, and Get does not return its limiter yet.
func (k *Keyed[R, K]) Get(key K) (core.Limiter, bool) {
	if e := k.find(key); e != nil {
		return e.limiter, true
	}
	return nil, false
}

// Statistics returns the statistics of r's partition, and whether the partition is live. It
// does not create a partition. For a limiter that is not a [core.Reporter], only Available is
// set.
func (k *Keyed[R, K]) Statistics(r R) (core.Statistics, bool) {
	if k.o.Key == nil {
		return core.Statistics{}, false
	}
	if l, ok := k.Get(k.o.Key(r)); ok {
		return statistics(l), true
	}
	return core.Statistics{}, false
}

// All yields the live partitions in no particular order: each partition that is live throughout
// the iteration once, and possibly partitions that are created or dropped during it. No lock is
// held; the loop's body may call any method.
func (k *Keyed[R, K]) All() iter.Seq2[K, core.Limiter] {
	return func(yield func(K, core.Limiter) bool) {
		k.live.Range(func(_, v any) bool {
			e := v.(*entry[R, K])
			return k.open.Load() && yield(e.key, e.limiter)
		})
	}
}

// Len returns the number of live partitions.
func (k *Keyed[R, K]) Len() int { return k.Counts().Live }

// Counts returns the number of live partitions, and how many were created and dropped.
func (k *Keyed[R, K]) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.counts
	c.Live, c.Overflowed = k.table.n, k.overflowed.Load()
	return c
}

// String returns a human-readable line: the name and the counts.
func (k *Keyed[R, K]) String() string {
	c := k.Counts()
	return fmt.Sprintf("%s: %d live, %d created, %d dropped, %d overflowed", k.title(), c.Live, c.Created, c.Dropped, c.Overflowed)
}

// title returns the name as errors and String show it.
func (k *Keyed[R, K]) title() string {
	if k.o.Name == "" {
		return "partitions"
	}
	return fmt.Sprintf("partitions %q", k.o.Name)
}

// find returns the key's entry, or nil.
func (k *Keyed[R, K]) find(key K) *entry[R, K] {
	if v, ok := k.live.Load(key); ok {
		return v.(*entry[R, K])
	}
	return nil
}

// Close closes every partition's limiter that is an [io.Closer] and returns their errors,
// joined. Waiting requests end with [core.ErrClosed], even in limiters that are not closed:
// Overflow, which belongs to the caller, and partitions' limiters that are not io.Closers.
// Later requests fail with core.ErrClosed. Leases can still be released. OnEvict is not called.
// A second Close does nothing and returns nil.
func (k *Keyed[R, K]) Close() error {
	closed := k.detach()
	k.closing.End(core.ErrClosed)
	var errs []error
	for e := range closed.all {
		if err := closeLimiter(e.limiter); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// detach closes the Keyed to all requests and returns the partitions that were live.
func (k *Keyed[R, K]) detach() table[R, K] {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open.Store(false)
	for _, created := range k.creating {
		if created != nil {
			close(created)
		}
	}
	clear(k.creating)
	k.live.Clear()
	closed := k.table
	k.table, k.places = table[R, K]{}, 0
	return closed
}
