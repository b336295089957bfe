package partition

import (
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
)

// entry is a live partition.
type entry[R any, K comparable] struct {
	// word is what requests and droppers meet in, each with one swap:
	//
	//	63        48 47      32   31   30         0
	//	  touches      calls     dead  pins
	//
	// pins: the requests that are in the partition, those that wait included. dead: it was
	// dropped; set under Keyed.mu, from a word without pins, by a swap that fails if a call
	// came since that word was read. Whoever pins a dead entry looks for another; its pin
	// stays and means nothing. calls: the requests so far. touches: those of them that took
	// permits, and now and then one more, when calls overflows; both start again at 0.
	word atomic.Uint64

	// What visits know; see due. seen: of a limiter of core's, the touches at the latest
	// visit; of somebody's, whether that visit asked it. notBefore: of a limiter of core's,
	// the instant of ring.now before which it cannot have been idle for long enough, as its
	// latest answer says.
	notBefore atomic.Int64
	seen      atomic.Uint32

	closes  bool // the limiter is an io.Closer
	foreign bool // the limiter may panic, or keep a context: it is not one of core's own

	hash  uint64
	chain atomic.Pointer[entry[R, K]] // next in the bucket; written under Keyed.mu

	// The ring. next of an entry that was taken out stays, and leads to those behind it.
	next atomic.Pointer[entry[R, K]] // written under Keyed.mu
	prev *entry[R, K]                // guarded by Keyed.mu; nil: not in the ring

	limiter core.Limiter
	key     K

	// bound is what For returns for the key, once it has been asked: it does not change, and
	// does not lead here, so whoever keeps it keeps nothing that was dropped.
	bound atomic.Pointer[partition[R, K]]
}

const (
	onePin   = 1
	dead     = 1 << 31
	oneCall  = 1 << 32
	oneTouch = 1 << 48
	allPins  = dead - 1
)

// enter keeps the partition from being dropped until leave, and counts a call. It reports
// false if that is not all there is to do: see Keyed.enterSlow.
func (e *entry[R, K]) enter() bool {
	w := e.word.Add(oneCall + onePin)
	return w&dead == 0 && uint16(w/oneCall)%callsPerShare != 0
}

// pin is enter that counts no call. It reports false if the partition was dropped.
func (e *entry[R, K]) pin() bool { return e.word.Add(onePin)&dead == 0 }

// leave ends what enter or pin began. touched: the request took permits.
func (e *entry[R, K]) leave(touched bool) {
	w := ^uint64(onePin - 1)
	if touched {
		w += oneTouch
	}
	e.word.Add(w)
}

// due reports whether a visit is to ask the limiter: in no two visits in a row does it say no
// to one that has been idle for long enough. No request but those of the caller's pins may be
// in the partition.
func (e *entry[R, K]) due(pins uint64, r *ring[R, K], timeout time.Duration) bool {
	w := e.word.Load()
	if w&(dead|allPins) != pins {
		return false
	}
	if e.foreign {
		// It may say what it likes, at any time: it is asked every other time.
		asked := e.seen.Load()
		e.seen.Store(1 - asked)
		return asked == 0
	}
	// One that permits were taken from since the latest visit has not been idle since then:
	// a busy limiter is never asked.
	touches := uint32(w / oneTouch)
	if e.seen.Load() != touches {
		e.seen.Store(touches)
		return false
	}
	// now is of this lap, and so the next visit knows better.
	now, t := r.now(), e.notBefore.Load()
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
	if e.foreign {
		defer func() {
			if recover() != nil {
				ok = false
			}
		}()
	}
	return e.idle(pins)
}

// alive reports whether the entry has not been dropped.
func (e *entry[R, K]) alive() bool { return e.word.Load()&dead == 0 }
