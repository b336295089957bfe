package partition

import (
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
)

// entry is a live partition.
type entry[K comparable] struct {
	// word is what requests and droppers meet in, each with one swap:
	//
	//	63      32 31   30         0
	//	  calls    dead  pins
	//
	// pins: the requests that are in the partition, those that wait included. dead: it was
	// dropped; set under Keyed.mu, from a word without pins, by a swap that fails if a call
	// came since that word was read. Whoever pins a dead entry looks for another; its pin
	// stays and means nothing. calls: the requests so far, modulo 2^32.
	word atomic.Uint64

	hash  uint64
	chain atomic.Pointer[entry[K]] // next in the bucket; written under Keyed.mu

	// The ring. next of an entry that was taken out stays, and leads to those behind it.
	next atomic.Pointer[entry[K]] // written under Keyed.mu
	prev *entry[K]                // guarded by Keyed.mu; nil: not in the ring

	limiter core.Limiter
	closes  bool // the limiter is an io.Closer

	// rest lets the next visit pass: set by a request that took permits, since its limiter
	// cannot have been idle for long, and by a visit that asked the limiter. So a busy
	// limiter is never asked, an idle one every other time.
	rest atomic.Bool

	key K
}

const (
	onePin  = 1
	dead    = 1 << 31
	oneCall = 1 << 32
	allPins = dead - 1
)

// pin keeps the partition from being dropped until leave, and counts a call. It returns
// the word; if that is dead, the partition was dropped before.
func (e *entry[K]) pin() uint64 { return e.word.Add(oneCall + onePin) }

// pinAgain is pin for a call that was counted.
func (e *entry[K]) pinAgain() bool { return e.word.Add(onePin)&dead == 0 }

func (e *entry[K]) leave() { e.word.Add(^uint64(onePin - 1)) }

// took notes that a request took permits.
func (e *entry[K]) took() {
	if !e.rest.Load() { // a shared cache line is not written for nothing
		e.rest.Store(true)
	}
}

// alive reports whether the entry has not been dropped.
func (e *entry[K]) alive() bool { return e.word.Load()&dead == 0 }

// idle returns the word from which the entry may be dropped, if no request is in it and
// its limiter has been idle for long enough to satisfy enough. The limiter's code runs.
func (e *entry[K]) idle(enough int64) (word uint64, ok bool) {
	word = e.word.Load()
	if word&(dead|allPins) != 0 {
		return 0, false
	}
	idler, ok := e.limiter.(core.Idler)
	if !ok {
		return 0, false
	}
	d, ok := idler.IdleFor()
	return word, ok && int64(d) >= enough
}
