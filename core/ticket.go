package core

import (
	"sync"
	"sync/atomic"
	"time"
)

// ticket is what a lease points at: the terms under which it was granted, and a word that
// says whether the lease is still valid.
//
// A limiter has a ticket of its own, its epoch, whose word also holds the state of the
// limiter, for grants and releases that need no mutex. The top bit of that word says that it is
// shut: the engine's mutex guards the state then, and only its holder changes the word.
// Below that is the generation of the latest grant. concurrency.go, bucket.go and window.go
// draw what is below the generation. New terms make a new epoch, and so do generations that
// are used up; the old epoch stays shut, and leases find there what they need.
//
// A concurrency limiter's other tickets, and those of chains and of [Grant], have a word that
// counts generations and nothing else. The call that moves the word from g to g+1 ends the lease
// of generation g, once: from then on no copy of that lease can release anything, however often
// the ticket is reused.
type ticket struct {
	word  atomic.Uint64
	until atomic.Int64 // of a window's epoch: when the segment ends for which the word is open

	e      *engine // nil: of none of the four limiters
	x      *extra
	*terms // nil: those of the limiter's epoch
}

// extra is what few leases need beyond their own fields.
type extra struct {
	home    *ticket    // the ticket that the lease's generation is of; nil: this one
	release func()     // of a lease of Grant
	joined  *joined    // of the ticket of a joined lease
	err     error      // why the lease is not acquired
	meta    []Metadata // each name once
	figures *figures   // of a lease whose own fields are too small
	lack    int        // of a bucket's grant whose state is Never: see machine.Grant
}

const (
	shut = 1 << 63

	// A generation has at most generationBits; it lies below bit 62 in a lease, and in the
	// word of a concurrency limiter and of a window.
	generationBits  = 20
	generationShift = 42
	maxGeneration   = 1<<generationBits - 1
	generationOne   = 1 << generationShift
	generationMask  = maxGeneration << generationShift
)

// newEpoch returns a shut epoch of e.
func newEpoch(e *engine, t terms) *ticket {
	k := &struct {
		ticket
		terms
	}{terms: t}
	k.ticket.e, k.ticket.terms = e, &k.terms
	k.word.Store(shut)
	return &k.ticket
}

// shut shuts an epoch's word and returns the word as it was. The mutex is held.
func (t *ticket) shut() uint64 {
	for {
		w := t.word.Load()
		if t.word.CompareAndSwap(w, w&^(1<<(t.shift&63)-1)|shut) {
			return w
		}
	}
}

// generation returns the generation in an epoch's word.
func (t *ticket) generation(w uint64) uint64 { return w &^ shut >> (t.shift & 63) & maxGeneration }

// lastGeneration returns the last generation that there is room for in an epoch's word.
func (t *ticket) lastGeneration() uint64 { return min(uint64(1)<<(63-t.shift)-1, maxGeneration) }

// number returns the number of the grant of a generation of an epoch.
func (t *ticket) number(generation uint64) uint64 { return t.first + generation }

// end ends a generation of a ticket, and reports whether this call is the one that does.
func (t *ticket) end(generation uint64) bool {
	// One of any number of copies and goroutines moves the generation. Only the winner touches
	// what the ticket refers to, and the ticket is reused only when the winner is done with that.
	return t.word.CompareAndSwap(generation, generation+1)
}

// start is what instants are measured from.
var start = time.Now()

// clock returns the instant now, by one read of the monotonic clock.
func (t *terms) clock() int64 { return int64(time.Since(start)) - t.base }

// ticketPool keeps the tickets of a concurrency limiter that are not in use. The garbage
// collector empties it in time: a peak of leases leaves nothing behind.
type ticketPool struct{ sync.Pool }

// draw returns a ticket of a concurrency limiter.
func (p *permitAccount) draw(e *engine) *ticket {
	pool := p.tickets.Load()
	if pool == nil {
		p.tickets.CompareAndSwap(nil, new(ticketPool))
		pool = p.tickets.Load()
	}
	if t, ok := pool.Get().(*ticket); ok {
		return t
	}
	return &ticket{e: e}
}

// discard keeps a ticket whose lease has ended, for another lease. A ticket whose generations are
// used up is not reused.
func (p *permitAccount) discard(t *ticket) {
	if t.word.Load() < maxGeneration {
		p.tickets.Load().Put(t)
	}
}
