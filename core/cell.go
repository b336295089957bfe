package core

import (
	"sync/atomic"
	"time"
)

// cell is what a lease points at. There are three kinds; the lease knows which.
//
// A limiter's own cell holds its terms and one word for the grants that need no mutex.
// New terms, or a used-up generation, make a new cell; the old one stays shut, and the
// leases that point at it find there what they need.
//
//	 63   62   61          42 41                      0
//	shut busy  generation     credit
//	shut generation    full     spare                    a token bucket's level, if it fits
//
// shut: the mutex's holder has taken the word's state back. Set and cleared under the
// mutex; while it is set, only the mutex's holder changes the word.
//
// credit: permits that may be taken by subtracting them here. 0 while shut.
//
// generation, of a concurrency limiter: counts the hot leases, those that live in this
// word alone. busy: the hot lease of this generation is held. Taking it is one swap that
// takes the permits too, giving it back another; whoever finds it busy gets a ticket.
//
// generation, of a rate limiter: counts the grants, so that each has a number; and the
// openings with a credit, so that no swap prepared before one succeeds after it.
//
// A ticket's word is its generation. The lease of generation g is released by whoever
// moves it from g to g+1, once; from then on no lease of g can release anything, however
// often the ticket is used again. One whose generations are used up is not used again.
//
// The third kind only carries what one lease needs: see extra.
type cell struct {
	word  atomic.Uint64
	force atomic.Int64 // a concurrency limiter's limit in force: terms.limit, or less; changes while the word is shut
	e     *engine      // nil: not of one of the four limiters
	x     *extra
	first uint64 // number of this cell's generation 0
	terms
}

// terms are what a limiter's options say. They do not change.
type terms struct {
	name       string
	limit      int
	queueLimit int
	order      QueueOrder
	manual     bool // permits come back in TryReplenish only

	// What kind of word the limiter has and, if it is a bucket's level, how many bits hold
	// what; see level.
	fullBits  int8 // above 0: a level; 0: a credit; below 0: a window's credit
	spareBits uint8
	periods   uint32 // limit/step

	step int   // a bucket's tokens per period; a window's segments
	span int64 // a bucket's period; a window's length
	from int64 // a window's origin; the instant from which a bucket's cell counts

	anchor *time.Time // a window's, as it was given; nil: none was
}

const (
	windowWord  = -1 // terms.fullBits
	watchedWord = 1  // terms.spareBits beside a credit: see watched.Resize
)

// watched reports whether the limit in force may be less than limit, so that the leases say
// what it was.
func (t *terms) watched() bool { return t.fullBits == 0 && t.spareBits == watchedWord }

// window reports whether these are a window's terms.
func (t *terms) window() bool { return t.fullBits < 0 }

// length returns what the metadata calls the window: a window's length, a bucket's time
// from empty to full; 0 for a concurrency limiter.
func (t *terms) length() int64 {
	if t.span == 0 || t.window() {
		return t.span
	}
	return t.periodsOf(t.ticks(t.limit))
}

// sameLength reports whether the two, which may be nil, have the same length.
func sameLength(a, b *terms) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.limit == b.limit && a.step == b.step && a.span == b.span && a.fullBits == b.fullBits
}

// extra is what few leases need beyond their own fields.
type extra struct {
	of      *cell           // the cell that the lease's generation is of; nil: this one
	release func()          // a ticket of Grant
	chain   *ChainedLimiter // a ticket of a chain
	links   []Lease         // a chain's leases, in its order
	rate    *terms          // a chain's: of whose window it tells; nil: of none
	err     error           // the refusal's error: fixed if the outcome is failed, else made before
	meta    []Metadata      // each name once
	wide    *numbers        // for a lease whose own fields are too small
}

const (
	shut            = 1 << 63
	busy            = 1 << 62
	generationShift = 42 // of a word with credit
	generationOne   = 1 << generationShift
	generationMask  = maxGeneration << generationShift

	// Credit and permits of a lease that needs no mutex; two bits less than there is room,
	// so that a release finds out when it would be too much.
	maxCredit = 1<<permitBits - 1

	// A generation has at most this many bits, in a cell of any kind.
	generationBits = 20
	maxGeneration  = 1<<generationBits - 1
)

// stateBits returns how many bits are below the generation.
func (t *terms) stateBits() uint8 {
	if t.fullBits > 0 {
		return uint8(t.fullBits) + t.spareBits
	}
	return generationShift
}

// generationOf returns the generation in the word.
func (t *terms) generationOf(word uint64) uint64 {
	if t.fullBits > 0 {
		return word &^ shut >> (t.stateBits() & 63)
	}
	return word & generationMask >> generationShift
}

// used reports whether there is no generation after the word's.
func (t *terms) used(word uint64) bool {
	width := uint8(generationBits)
	if t.fullBits > 0 {
		width = 63 - t.stateBits()
	}
	return t.generationOf(word) == 1<<width-1
}

// grants returns the number of the latest generation.
func (c *cell) grants() uint64 { return c.first + c.generationOf(c.word.Load()) }

// shut sets the word's shut bit and returns the state that it takes out of it. The mutex
// is held.
func (c *cell) shut() uint64 {
	mask := uint64(1)<<c.stateBits() - 1
	for {
		w := c.word.Load()
		if c.word.CompareAndSwap(w, w&^mask|shut) {
			return w & mask
		}
	}
}

// newCell returns a shut cell that goes on counting at first.
func newCell(e *engine, first uint64, t terms) *cell {
	c := &cell{e: e, first: first, terms: t}
	c.word.Store(shut)
	c.force.Store(int64(t.limit))
	return c
}

// newExtra returns a cell that carries x, with the terms of like, which may be nil.
func newExtra(x extra, like *cell) *cell {
	c := &struct {
		cell
		extra
	}{extra: x}
	c.carry(&c.extra, like)
	return &c.cell
}

// carry makes c a cell that carries x, with the terms of like, which may be nil.
func (c *cell) carry(x *extra, like *cell) {
	c.x = x
	if like != nil {
		c.e, c.terms = like.e, like.terms
	}
}
