package partition

import (
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Each call does a bounded share of the sweeping: one call in 32, chosen at random, looks at 16
// partitions, and a call that creates a partition looks at two more, so that a flood of new keys
// does not outrun the hand. All of n partitions are looked at within some 2n calls, on
// average.
const (
	callsPerSweep  = 32
	looksPerSweep  = 16
	looksPerNewKey = 2
	looksForRoom   = 16
	triesForRoom   = 2 // others may take a place that came free
)

// sweepSometimes looks at some partitions in one call of callsPerSweep.
func (k *Keyed[R, K]) sweepSometimes() {
	if rand.Uint32()%callsPerSweep == 0 {
		k.sweepSome(looksPerSweep)
	}
}

// sweepSome looks at the next n partitions, and drops the ones that have been idle for
// IdleTimeout. It does nothing if another sweep runs. The caller has taken no permits yet, so a panic of
// OnEvict loses none.
func (k *Keyed[R, K]) sweepSome(n int) {
	if !k.sweeps.start() {
		return
	}
	defer k.sweeps.end()
	var buffer [2 * looksPerSweep]*entry[R, K]
	now := int64(time.Since(k.base))
	each(slices.Values(k.next(buffer[:0], n, n)), func(e *entry[R, K]) {
		if e.due(now, k.o.IdleTimeout) {
			k.expire(e, now)
		}
	})
}

// each calls look for each entry, also if a user's code panics, and then panics as the first one did.
func each[R any, K comparable](entries iter.Seq[*entry[R, K]], look func(*entry[R, K])) {
	var panicked any
	for e := range entries {
		func() {
			defer func() {
				if p := recover(); p != nil && panicked == nil {
					panicked = p
				}
			}()
			look(e)
		}()
	}
	if panicked != nil {
		panic(panicked)
	}
}

// next appends to buffer the partitions and groups that are looked at next.
func (k *Keyed[R, K]) next(buffer []*entry[R, K], partitions, groups int) []*entry[R, K] {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.groups.table.next(k.partitions.table.next(buffer, partitions), groups)
}

// expire drops the partition if its limiter has been idle for IdleTimeout, or notes when to
// ask again. It reports whether it dropped it.
func (k *Keyed[R, K]) expire(e *entry[R, K], now int64) bool {
	d, word, idle := e.idle()
	if idle && d >= k.o.IdleTimeout {
		return k.drop(e, word, k.o.IdleTimeout)
	}
	if !idle {
		d = 0
	}
	e.notBefore.Store(now + int64(k.o.IdleTimeout-d))
	return false
}

// makeRoom drops a partition that is idle now, and reports whether it found one among those
// it looked at. For a call from user code of a sweep it drops none.
func (k *Keyed[R, K]) makeRoom() bool {
	if !k.sweeps.startNeeded() {
		return false
	}
	defer k.sweeps.end()
	var buffer [looksForRoom]*entry[R, K]
	for _, e := range k.next(buffer[:0], looksForRoom, 0) {
		if _, word, idle := e.idle(); idle && k.drop(e, word, 0) {
			return true
		}
	}
	return false
}

// Sweep drops all partitions that may be dropped now and returns how many it dropped. If Options.OnEvict or a
// limiter panics, Sweep goes on with the others and panics then. It does nothing after Close, or when called
// from OnEvict. A [core.ConcurrencyLimiter] measures its idle time from the first sweep that finds it idle, so only
// a later sweep drops it.
func (k *Keyed[R, K]) Sweep() int {
	if !k.sweeps.startNeeded() {
		return 0
	}
	defer k.sweeps.end()
	n, now := 0, int64(time.Since(k.base))
	each(k.all, func(e *entry[R, K]) {
		if k.expire(e, now) {
			n++
		}
	})
	return n
}

// drop drops the partition if nothing has happened in it since its word was read and, if the limiter
// retires, it has still been idle for that time. Then it closes the limiter and calls OnEvict.
func (k *Keyed[R, K]) drop(e *entry[R, K], word uint64, idle time.Duration) bool {
	if !k.unlink(e, word, idle) {
		return false
	}
	callUser(func() {
		_ = e.close() // no caller to return its error to
		if k.o.OnEvict != nil {
			k.o.OnEvict(e.of.key, e.limiter)
		}
	})
	return true
}

// unlink takes the partition out of the map and the table.
func (k *Keyed[R, K]) unlink(e *entry[R, K], word uint64, idle time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() || !e.dropLocked(word, idle) {
		return false
	}
	s := k.entriesOf(e)
	s.live.Delete(e.of.key)
	s.places--
	s.table.remove(e)
	k.counts.Dropped++
	return true
}

// closeLimiter closes a limiter that is an io.Closer.
func closeLimiter(l core.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
