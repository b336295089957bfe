package core

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/machine"
)

// cell is what a lease points at. There are three kinds; the lease knows which.
//
// A limiter's own cell has its terms and one word for the grants that need no mutex. New
// terms, a used-up generation or a clock that went back make a new cell; the old one stays
// shut, and the leases that point at it find there what they need.
//
//	 63   62   61          42 41     31 30           0
//	shut busy  generation     count     credit           a concurrency limiter's
//	shut  0    generation          credit                a window's, a token bucket's
//	shut generation    full            spare             a token bucket's level, if it fits
//
// shut: the mutex's holder has taken the word's state back. Set and cleared under the
// mutex; while it is set, only the mutex's holder changes the word.
//
// credit: permits that may be taken by subtracting them here. 0 while shut.
//
// generation, of a concurrency limiter: counts the hot leases, those that live in this
// word alone. busy: the hot lease of this generation is held. Taking it is one swap that
// takes the permits too, giving it back another; whoever finds it busy gets a ticket, and
// count counts the grants that are not hot. When it has no more room, the limiter gets a new
// cell, so that a lease that is held for long does not stay the hot one.
//
// generation, of a rate limiter: counts the grants, so that each has a number; and a
// credit's openings, so that no swap prepared before one succeeds after it. An opening takes
// three of them: so of any three grants in a row one has a number that three divides; see
// turn.
//
// A ticket's word is its generation. The lease of generation g is released by whoever
// moves it from g to g+1, once; from then on no lease of g can release anything, however
// often the ticket is used again. One whose generations are used up is not used again.
//
// The third kind only carries what one lease needs: see extra.
type cell struct {
	word atomic.Uint64

	// bound is, of a concurrency limiter's own cell, the limit in force: the terms' or less,
	// see watched.Resize. Of a rate limiter's, the instant before which the credit may be taken.
	// It changes while the word is shut.
	bound atomic.Int64

	e *engine // nil: not of one of the four limiters
	x *extra
	*terms
}

// recorded is a mode: each instant at which the limiter was used is kept. See newCell.
const recorded machine.Mode = 1 << 7

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
	shut = 1 << 63
	busy = 1 << 62

	// A generation has at most this many bits, in a cell of any kind.
	generationBits = 20
	maxGeneration  = 1<<generationBits - 1

	generationShift = 42 // but in a bucket's level
	generationOne   = 1 << generationShift
	generationMask  = maxGeneration << generationShift

	openingTakes = direct.Turns // generations
	oneOpening   = openingTakes << generationShift

	countOne  = 1 << 31 // of a concurrency limiter
	countMask = 1<<42 - countOne

	// What is lent at most has a bit less than there is room, so that a release finds out
	// when it would be too much.
	heldMask   = countOne - 1
	maxHeld    = heldMask >> 1
	windowMask = generationOne - 1
	maxWindow  = maxPermits
)

// stateBits returns how many bits are below the generation.
func (t *terms) stateBits() uint8 {
	if t.StateBits > 0 {
		return t.StateBits
	}
	return generationShift
}

// generationOf returns the generation in the word.
func (t *terms) generationOf(word uint64) uint64 {
	if t.StateBits > 0 {
		return word &^ shut >> (t.StateBits & 63)
	}
	return word & generationMask >> generationShift
}

// used reports whether there is no generation after the word's, or not enough for an
// opening.
func (t *terms) used(word uint64) bool {
	g := t.generationOf(word)
	switch {
	case t.Kind == machine.Concurrency:
		return g == maxGeneration
	case t.StateBits > 0:
		return g == 1<<(63-t.StateBits)-1
	}
	return g > maxGeneration-openingTakes
}

// number returns the number of the latest grant that a word knows of.
func (c *cell) number(word uint64) uint64 {
	n := c.first + c.generationOf(word)
	if c.Kind == machine.Concurrency {
		n += word & countMask / countOne
	}
	return n
}

// shut sets the word's shut bit and returns the word as it was. The mutex is held.
func (c *cell) shut() uint64 {
	mask := uint64(1)<<c.stateBits() - 1
	for {
		w := c.word.Load()
		if c.word.CompareAndSwap(w, w&^mask|shut) {
			return w
		}
	}
}

// newCell returns a shut cell of e that goes on counting at first.
//
// Clocks do not go back but from one synctest bubble to another, or into one. In a bubble
// each use of the limiter is recorded, so that the next finds out.
func newCell(e *engine, first uint64, t *terms) *cell {
	c := &struct {
		cell
		terms
	}{terms: *t}
	c.cell.terms = &c.terms
	c.terms.first = first
	if c.terms.Mode &^= recorded; bubbled() {
		c.terms.Mode |= recorded
	}
	c.e = e
	c.word.Store(shut)
	if t.Kind == machine.Concurrency {
		c.bound.Store(int64(t.Limit))
	}
	return &c.cell
}

// bubbled reports whether the clock is a synctest bubble's: it has no monotonic reading.
func bubbled() bool {
	now := time.Now()
	return now == now.Round(0) //nolint:revive,staticcheck // the reading is what counts, not the instant
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
	c.terms = &noTerms
	if like != nil {
		c.e, c.terms = like.e, like.terms
	}
}
