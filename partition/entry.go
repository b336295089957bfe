package partition

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// entry is a live partition.
type entry[R any, K comparable] struct {
	// What a request for the partition reads. None of it is written while requests come but
	// chain, when partitions come and go.
	hash    uint64
	chain   atomic.Pointer[entry[R, K]] // next in the bucket; written under Keyed.mu
	key     K
	limiter core.Limiter
	kind    kind
	closes  bool // the limiter is an io.Closer

	// seen is what visits know of somebody's limiter: whether the latest asked it.
	seen atomic.Bool

	// notBefore is what visits know of a limiter of core's: the instant of ring.now before
	// which it cannot have been idle for long enough, as its latest answer says.
	notBefore atomic.Int64

	// bound is what For returns for the key, once it has been asked: it does not change, and
	// does not lead here, so whoever keeps it keeps nothing that was dropped.
	bound atomic.Pointer[partition[R, K]]

	// word is what droppers meet in with those requests that write to it: see kind.
	//
	//	63      32   31   30         0
	//	   calls    dead  pins
	//
	// pins: the requests that hold the partition, those that wait included. dead: it was
	// dropped; set under Keyed.mu, once there are no pins. Whoever pins a dead entry looks for
	// another; its pin stays and means nothing. calls: the requests so far; starts again at 0.
	word atomic.Uint64

	// The ring. next of an entry that was taken out stays, and leads to those behind it.
	next atomic.Pointer[entry[R, K]] // written under Keyed.mu
	prev *entry[R, K]                // guarded by Keyed.mu; nil: not in the ring
}

// kind says how a request and a drop of its partition find out about each other, and how
// the requests are counted.
//
// Somebody's limiter does not know of the drop. Each request pins the partition, and is
// counted by that, before it asks the limiter. The drop is a swap from a word without pins
// that fails if a request came since that word was read; it was read before the limiter said
// that it is idle.
//
// A limiter of core's decides itself: direct.Ways.Retire closes it if it is idle, and what it
// has granted by then keeps it from being so. A request asks it without more ado, and if it
// is closed, and the entry dead, looks for another. Only those that came the long way hold a
// pin, so that a partition just made for them is not dropped to make room.
type kind uint8

const (
	foreign kind = iota // the limiter may panic, or keep a context: it is not one of core's own
	held                // a concurrency limiter of core's: the word counts the requests
	rated               // a rate limiter of core's, which counts its grants: the word is not written
)

// kindOf returns the kind of l's partition. What embeds a limiter of core's is not one.
func kindOf(l core.Limiter) kind {
	switch l.(type) {
	case *core.ConcurrencyLimiter:
		return held
	case *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		return rated
	}
	return foreign
}

const (
	onePin  = 1
	dead    = 1 << 31
	oneCall = 1 << 32
	allPins = dead - 1
)

// enter keeps the partition from being dropped until leave, and counts a call. It reports
// false if that is not all there is to do: see Keyed.enterSlow.
func (e *entry[R, K]) enter() bool {
	w := e.word.Add(oneCall + onePin)
	return w&dead == 0 && w/oneCall%callsPerShare != 0
}

// call is enter that keeps nothing.
func (e *entry[R, K]) call() bool { return e.word.Add(oneCall)/oneCall%callsPerShare != 0 }

// join is enter for a request that has done its share. It counts a call too: a drop finds out
// by that about a request that came and has gone, and may have taken permits.
func (e *entry[R, K]) join() bool { return e.word.Add(oneCall+onePin)&dead == 0 }

// pin is enter for what takes no permits. It reports false if the partition was dropped.
func (e *entry[R, K]) pin() bool { return e.word.Add(onePin)&dead == 0 }

// leave ends what enter, join or pin began.
func (e *entry[R, K]) leave() { e.word.Add(^uint64(onePin - 1)) }

// due reports whether a visit at now, which may be unread, is to ask the limiter: in no two
// visits in a row does it say no to one that has been idle for long enough. No request but
// those of the caller's pins may be in the partition.
func (e *entry[R, K]) due(pins uint64, now int64, r *ring[R, K], timeout time.Duration) bool {
	if e.word.Load()&(dead|allPins) != pins {
		return false
	}
	if e.kind == foreign {
		// It may say what it likes, at any time: it is asked every other time.
		asked := e.seen.Load()
		e.seen.Store(!asked)
		return !asked
	}
	// What now is unread is of this lap, and so the next visit knows better.
	now, t := r.at(now), e.notBefore.Load()
	return now >= t || now < t-int64(timeout) // the clock went back: another bubble's
}

// idle reports whether the limiter is idle, for how long, and the word from which the entry
// may be dropped, if no request is in it but those of the caller's pins. The limiter's code
// runs.
func (e *entry[R, K]) idle(pins uint64) (word uint64, d time.Duration, ok bool) {
	word = e.word.Load()
	if word&(dead|allPins) != pins {
		return 0, 0, false
	}
	idler, ok := e.limiter.(core.Idler)
	if !ok {
		return 0, 0, false
	}
	d, ok = idler.IdleFor()
	return word, d, ok
}

// idleInPassing is idle for a request that came for something else, perhaps for another key:
// a panic of the limiter does not break that request, and counts as busy.
func (e *entry[R, K]) idleInPassing(pins uint64) (word uint64, d time.Duration, ok bool) {
	if e.kind == foreign {
		defer func() {
			if recover() != nil {
				ok = false
			}
		}()
	}
	return e.idle(pins)
}

// retire marks the entry as dead, if it may be dropped: nothing happened in it since its word
// was read, or its limiter has been idle for so long. Keyed.mu is held.
func (e *entry[R, K]) retire(word, pins uint64, idle time.Duration) bool {
	if e.kind == foreign {
		// A request that came since idle read the word changed it, and may have taken permits.
		return e.word.CompareAndSwap(word, word|dead)
	}
	if e.word.Load()&(dead|allPins) != pins || !ways.Retire(e.limiter, idle) {
		return false
	}
	e.word.Or(dead)
	return true
}

// alive reports whether the entry has not been dropped.
func (e *entry[R, K]) alive() bool { return e.word.Load()&dead == 0 }
