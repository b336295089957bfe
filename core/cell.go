package core

import "sync/atomic"

// cell holds the terms of a limiter, which do not change, and one word for the grants
// that need no mutex. New terms, or a used-up generation, make a new cell; the old one
// stays shut, and the leases that point at it find there what they need.
//
//	 63   62   61          42 41                      0
//	shut busy  generation     credit
//
// credit: permits that may be taken by subtracting them here. 0 while shut.
//
// shut: the mutex's holder has taken the credit back. Set and cleared under the mutex;
// while it is set, only the mutex's holder changes the word.
//
// generation, of a concurrency limiter: counts the hot leases, those that live in this
// word alone. busy: the hot lease of this generation is held. Taking it is one swap that
// takes the permits too, giving it back another; whoever finds it busy gets a ticket.
//
// generation, of a rate limiter: counts the grants, so that each has a number, and the
// openings, so that no swap prepared before one succeeds after it.
type cell struct {
	word  atomic.Uint64
	e     *engine
	first uint64 // number of this cell's generation 0

	terms
}

// terms are what a limiter's options say, its account's own aside.
type terms struct {
	name       string
	limit      int
	queueLimit int
	order      QueueOrder
	manual     bool // permits come back in TryReplenish only
}

const (
	shut            = 1 << 63
	busy            = 1 << 62
	generationShift = 42
	generationOne   = 1 << generationShift
	generationMask  = busy - generationOne
	creditMask      = generationOne - 1
	maxCredit       = creditMask
)

// generationOf returns the generation in the word.
func generationOf(word uint64) uint64 { return word & generationMask >> generationShift }

// grants returns the number of the latest generation.
func (c *cell) grants() uint64 { return c.first + generationOf(c.word.Load()) }

// newCell returns a shut cell that goes on counting at first.
func newCell(e *engine, first uint64, t terms) *cell {
	c := &cell{e: e, first: first, terms: t}
	c.word.Store(shut)
	return c
}
