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
// There is no goroutine and no timer. Some requests, chosen at random, look at a few partitions and drop the ones that
// are due: with n live partitions it takes about 4n+64 further requests, on average and for any keys, until all
// partitions that may be dropped are gone. [Keyed.Sweep] drops them immediately.
//
// A request for a live partition allocates nothing beyond what Options.Key allocates.
//
// Keyed is a [Limiter], safe for concurrent use. Create it with [New]; requests to the zero value fail
// with [core.ErrClosed].
type Keyed[R any, K comparable] struct {
	o    Options[R, K] // options as given, but for the defaults
	base time.Time     // times are counted from here
	open atomic.Bool   // until Close; written under mu

	partitions entries[R, K]

	_ [64]byte // each call reads the fields above, and sweeps write those below: see LiveKeyAllCores in bench

	groups     entries[R, K] // for the keys for which there is no room
	overflowed atomic.Uint64
	looking    turn         // turn of the call that asks limiters of users whether they are idle
	telling    turn         // turn of the call that closes limiters and calls OnEvict
	closing    wait.Source  // ends the waits for telling
	untoldNow  atomic.Int64 // the length of untold
	refreshing wait.Turn    // turn of Refresh; not a mutex, because Update may sleep in a synctest bubble

	// mu is held for a few steps when a partition comes or goes, never while a user's code
	// runs. A limiter's mutex may be taken under it. It guards what follows, the dropped and replaced
	// bits of all entries, and what entries says.
	mu     sync.Mutex
	counts Counts         // Created and Dropped only
	untold []*entry[R, K] // dropped, and not closed yet
}

// Counts is a snapshot of the counts of a [Keyed].
type Counts struct {
	Live       int    // partitions that exist now
	Groups     int    // groups that exist now; see Options.Group
	Created    uint64 // partitions and groups created since New; failed attempts do not count
	Dropped    uint64 // partitions and groups dropped because they were idle; Close drops none
	Overflowed uint64 // requests that found no room for their key, whoever decided them then: a group, or nobody
}

// New returns a Keyed without partitions, or an error that lists all invalid options.
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
	o.IdleTimeout = min(o.IdleTimeout, math.MaxInt64/4) // may be added to a time
	k := &Keyed[R, K]{o: o, base: time.Now()}
	k.partitions.creating, k.groups.creating = make(map[K]*creation[R, K]), make(map[K]*creation[R, K])
	k.partitions.max = min(o.MaxPartitions, math.MaxInt32-maxGroups) // fits an entry's slot
	k.groups.max = maxGroups
	k.open.Store(true)
	return k, nil
}

// NewByKey returns a Keyed whose requests are their keys, with the default options. newLimiter makes a key's
// limiter: see Options.New.
func NewByKey[K comparable](newLimiter func(K) (core.Limiter, error)) (*Keyed[K, K], error) {
	return New(Options[K, K]{Key: func(key K) K { return key }, New: newLimiter})
}

// Get returns the limiter of the key's partition, to inspect or update it, and whether the partition is live. It does
// not create a partition. When the partition is dropped, its limiter is closed and updates to it fail with
// [core.ErrClosed], so call Get each time instead of keeping the limiter. A partition is live once Options.New has
// returned. While New runs, Get does not return its limiter, and New may have read limits that have changed since.
// [Keyed.Refresh] reaches such limiters too.
func (k *Keyed[R, K]) Get(key K) (core.Limiter, bool) {
	if e := k.partitions.find(key); e != nil {
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

// All yields the live partitions and groups in no particular order. It yields each one that is live throughout the
// iteration once. It may or may not yield the ones that are created or dropped meanwhile. No lock is held; the loop's
// body may call any method.
func (k *Keyed[R, K]) All() iter.Seq2[K, core.Limiter] {
	return func(yield func(K, core.Limiter) bool) {
		for e := range k.all {
			if !yield(e.of.key, e.limiter) {
				return
			}
		}
	}
}

// all yields the live entries, until Close.
func (k *Keyed[R, K]) all(yield func(*entry[R, K]) bool) {
	more := true
	for _, s := range k.both() {
		s.live.Range(func(_, v any) bool {
			more = more && k.open.Load() && yield(v.(*entry[R, K]))
			return more
		})
	}
}

// both returns the two kinds of entries.
func (k *Keyed[R, K]) both() [2]*entries[R, K] { return [2]*entries[R, K]{&k.partitions, &k.groups} }

// entriesOf returns the entries to which e belongs.
func (k *Keyed[R, K]) entriesOf(e *entry[R, K]) *entries[R, K] {
	if e.group {
		return &k.groups
	}
	return &k.partitions
}

// Len returns the number of live partitions.
func (k *Keyed[R, K]) Len() int { return k.Counts().Live }

// Counts returns how many partitions and groups exist, how many were created and dropped, and how many requests found
// no room.
func (k *Keyed[R, K]) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.counts
	c.Live, c.Groups, c.Overflowed = k.partitions.table.n, k.groups.table.n, k.overflowed.Load()
	return c
}

// String returns a human-readable line: the name and the counts.
func (k *Keyed[R, K]) String() string {
	c := k.Counts()
	groups := ""
	if k.o.Group != nil {
		groups = fmt.Sprintf("%d groups, ", c.Groups)
	}
	return fmt.Sprintf("%s: %d live, %s%d created, %d dropped, %d overflowed", k.title(), c.Live, groups, c.Created, c.Dropped, c.Overflowed)
}

// title returns the name as errors and String show it.
func (k *Keyed[R, K]) title() string {
	if k.o.Name == "" {
		return "partitions"
	}
	return fmt.Sprintf("partitions %q", k.o.Name)
}

// Close closes every partition's limiter that is an [io.Closer] and returns their errors,
// joined. Waiting requests end with [core.ErrClosed], even in limiters that are not io.Closers.
// Later requests fail with core.ErrClosed. Leases can still be released. OnEvict is not called.
// A second Close does nothing and returns nil.
func (k *Keyed[R, K]) Close() error {
	defer k.tellRest()
	tables := k.detach()
	k.closing.End(core.ErrClosed)
	var errs []error
	for _, closed := range tables {
		for e := range closed.all {
			if err := e.close(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// detach closes the Keyed to all requests and returns the partitions and groups that were live.
func (k *Keyed[R, K]) detach() (closed [2]table[R, K]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open.Store(false)
	for i, s := range k.both() {
		for _, c := range s.creating {
			c.err = core.ErrClosed
			close(c.done)
		}
		clear(s.creating)
		s.live.Clear()
		closed[i], s.table, s.places = s.table, table[R, K]{}, 0
	}
	return closed
}
