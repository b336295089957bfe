package partition

import (
	"math/bits"
	"sync/atomic"
)

// table finds entries by their keys: a hash table that grows by linear hashing (Litwin,
// "Linear Hashing: A New Tool for File and Table Addressing", 1980). Each entry that is
// added splits at most one bucket, each that is removed merges at most one; so there is no
// call that pays for a new table, and the memory of a peak is given back.
//
// find takes no lock and never waits. It may miss an entry that is in the table, if its
// bucket is being split or merged: whoever finds nothing looks again under the mutex.
// All else happens under Keyed.mu.
type table[R any, K comparable] struct {
	size atomic.Uint64 // buckets in use
	dir  atomic.Pointer[[]atomic.Pointer[page[R, K]]]
	n    uint64 // entries; guarded by Keyed.mu
}

// page is a run of buckets, each the first of a chain of entries.
type page[R any, K comparable] [pageSize]atomic.Pointer[entry[R, K]]

const (
	pageShift    = 7
	pageSize     = 1 << pageShift
	leastBuckets = 8
)

// reset makes the table an empty one.
func (t *table[R, K]) reset() {
	dir := make([]atomic.Pointer[page[R, K]], 1)
	dir[0].Store(new(page[R, K]))
	t.n = 0
	t.size.Store(leastBuckets)
	t.dir.Store(&dir)
}

// bucketOf returns the number of a hash's bucket among size of them: the hash modulo the
// power of two at or above size, or, as long as that bucket is not split off, the one that
// it will be split off from.
func bucketOf(hash, size uint64) uint64 {
	mask := uint64(1)<<bits.Len64(size-1) - 1
	b := hash & mask
	if b >= size {
		b &= mask >> 1
	}
	return b
}

// parent returns the bucket that b, which is not 0, was split off from.
func parent(b uint64) uint64 { return b &^ (1 << (bits.Len64(b) - 1)) }

// bucket returns a bucket, or nil if the table has shrunk below it.
func (t *table[R, K]) bucket(b uint64) *atomic.Pointer[entry[R, K]] {
	dir := *t.dir.Load()
	if b>>pageShift >= uint64(len(dir)) {
		return nil
	}
	p := dir[b>>pageShift].Load()
	if p == nil {
		return nil
	}
	return &p[b%pageSize]
}

// find returns the key's entry, or nil.
func (t *table[R, K]) find(hash uint64, key K) *entry[R, K] {
	bucket := t.bucket(bucketOf(hash, t.size.Load()))
	if bucket == nil {
		return nil
	}
	for e := bucket.Load(); e != nil; e = e.chain.Load() {
		if e.hash == hash && e.key == key {
			return e
		}
	}
	return nil
}

// add adds an entry whose key is not there.
func (t *table[R, K]) add(e *entry[R, K]) {
	size := t.size.Load()
	bucket := t.bucket(bucketOf(e.hash, size))
	e.chain.Store(bucket.Load())
	bucket.Store(e)
	t.n++
	if t.n > size {
		t.split(size)
	}
}

// split adds bucket b, the one after the last, and moves there what belongs there.
func (t *table[R, K]) split(b uint64) {
	t.makePage(b >> pageShift)
	from, to := t.bucket(parent(b)), t.bucket(b)
	// Both chains keep the order of the old one. So whoever walks it now only ever goes
	// forward in that order: he may be led into the other chain and miss something, but
	// never goes in a circle.
	var tails [2]*entry[R, K]
	var heads [2]*entry[R, K]
	for e := from.Load(); e != nil; e = e.chain.Load() {
		half := 0
		if bucketOf(e.hash, b+1) == b {
			half = 1
		}
		if tails[half] == nil {
			heads[half] = e
		} else {
			tails[half].chain.Store(e)
		}
		tails[half] = e
	}
	for _, tail := range tails {
		if tail != nil {
			tail.chain.Store(nil)
		}
	}
	to.Store(heads[1])
	from.Store(heads[0])
	t.size.Store(b + 1)
}

// makePage sees to it that the page is there.
func (t *table[R, K]) makePage(i uint64) {
	dir := *t.dir.Load()
	if i >= uint64(len(dir)) {
		grown := make([]atomic.Pointer[page[R, K]], 2*len(dir))
		for j := range dir {
			grown[j].Store(dir[j].Load())
		}
		t.dir.Store(&grown)
		dir = grown
	}
	if dir[i].Load() == nil {
		dir[i].Store(new(page[R, K]))
	}
}

// remove removes an entry that is there.
func (t *table[R, K]) remove(e *entry[R, K]) {
	size := t.size.Load()
	link := t.bucket(bucketOf(e.hash, size))
	for link.Load() != e {
		link = &link.Load().chain
	}
	link.Store(e.chain.Load()) // e's own stays, for those who are at e
	t.n--
	if t.n < size/2 && size > leastBuckets {
		t.merge(size - 1)
	}
}

// merge takes away b, the last bucket, and moves what is there back to where it came from.
func (t *table[R, K]) merge(b uint64) {
	link, last := t.bucket(parent(b)), t.bucket(b)
	for link.Load() != nil {
		link = &link.Load().chain
	}
	link.Store(last.Load())
	t.size.Store(b)
	last.Store(nil)
	if b%pageSize == 0 {
		t.dropPage(b >> pageShift)
	}
}

// dropPage takes away the last page, and the half of the directory that was for it and
// those after it.
func (t *table[R, K]) dropPage(i uint64) {
	dir := *t.dir.Load()
	dir[i].Store(nil)
	if i > 0 && i <= uint64(len(dir))/4 {
		shrunk := make([]atomic.Pointer[page[R, K]], len(dir)/2)
		for j := range shrunk {
			shrunk[j].Store(dir[j].Load())
		}
		t.dir.Store(&shrunk)
	}
}
