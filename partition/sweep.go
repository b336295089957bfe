package partition

import (
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
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
	leastUntold    = 1024
)

// sweepSometimes looks at some partitions in one call of callsPerSweep.
func (k *Keyed[R, K]) sweepSometimes() {
	if rand.Uint32()%callsPerSweep == 0 {
		k.sweepSome(looksPerSweep)
	}
}

// sweepSome looks at the next n partitions and groups, and drops the ones that have been idle for
// IdleTimeout. It does nothing while another call looks or tells. The caller has taken no permits yet, so a panic of
// OnEvict loses none.
func (k *Keyed[R, K]) sweepSome(n int) {
	if !k.telling.isFree() || !k.looking.take() {
		return
	}
	var buffer [2 * looksPerSweep]*entry[R, K]
	now := k.now()
	due := slices.DeleteFunc(k.next(buffer[:0], n, n), func(e *entry[R, K]) bool { return !e.due(now, k.o.IdleTimeout) })
	if len(due) == 0 {
		k.looking.leave()
		k.tell(1)
		return
	}
	k.sweep(slices.Values(due), k.o.IdleTimeout, len(due), true)
}

// now returns the nanoseconds since base.
func (k *Keyed[R, K]) now() int64 { return int64(time.Since(k.base)) }

// makeRoom drops a partition that is idle now, and reports whether it found one among those
// it looked at.
func (k *Keyed[R, K]) makeRoom() bool {
	if k.untoldNow.Load() >= k.maxUntold() && k.telling.takeSoon() {
		k.tellOf(looksForRoom)
	}
	var buffer [looksForRoom]*entry[R, K]
	return k.sweep(slices.Values(k.next(buffer[:0], looksForRoom, 0)), 0, 1, k.looking.takeSoon()) > 0
}

// maxUntold returns the number of dropped partitions that are not told of yet, with which no other one is dropped to make
// room: the memory is bounded while OnEvict blocks.
func (k *Keyed[R, K]) maxUntold() int64 { return int64(max(leastUntold, k.partitions.max)) }

// Sweep drops all partitions that may be dropped now and returns how many it dropped. If Options.OnEvict or a limiter
// panics, Sweep finishes the others first and then panics. It does nothing after Close, or while another call is in
// OnEvict, for example when OnEvict calls it. A [core.ConcurrencyLimiter] measures its idle time from the first sweep
// that finds it idle, so only a later sweep drops it.
func (k *Keyed[R, K]) Sweep() int {
	if !k.telling.takeSoon() {
		return 0
	}
	k.telling.leave()
	defer func() { k.tell(int(k.untoldNow.Load())) }()
	return k.sweep(k.all, k.o.IdleTimeout, math.MaxInt, k.looking.takeSoon())
}

// sweep looks at partitions and groups, and drops the ones that have been idle for so long, until it has dropped most
// of them. Then it tells of as many, and at least of one. looks says that the caller has taken k.looking: otherwise
// sweep does not look at the limiters of users.
func (k *Keyed[R, K]) sweep(entries iter.Seq[*entry[R, K]], idle time.Duration, most int, looks bool) (dropped int) {
	defer func() { k.tell(max(dropped, 1)) }()
	if looks {
		defer k.looking.leave()
	}
	now := k.now()
	each(entries, func(e *entry[R, K]) bool {
		if (e.ours || looks) && k.expire(e, now, idle) {
			dropped++
		}
		return dropped < most
	})
	return dropped
}

// each calls f for each entry until f returns false. If the code of a user panics, each goes on, and then panics as
// the first one did.
func each[R any, K comparable](entries iter.Seq[*entry[R, K]], f func(*entry[R, K]) (more bool)) {
	var panicked any
	for e := range entries {
		more := true
		func() {
			defer func() {
				if p := recover(); p != nil && panicked == nil {
					panicked = p
				}
			}()
			more = f(e)
		}()
		if !more {
			break
		}
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

// expire drops the partition if its limiter has been idle for so long, and reports whether it did. Otherwise it notes when a
// sweep has to ask again.
func (k *Keyed[R, K]) expire(e *entry[R, K], now int64, timeout time.Duration) bool {
	d, word, idle := e.idle()
	if idle && d >= timeout {
		return k.drop(e, word, timeout)
	}
	if !idle {
		d = 0
	}
	e.notBefore.Store(now + int64(k.o.IdleTimeout-d))
	return false
}

// drop drops the partition if nothing has happened in it since its word was read and, if the limiter retires, it
// has still been idle for that time. A call of tell follows.
func (k *Keyed[R, K]) drop(e *entry[R, K], word uint64, idle time.Duration) bool {
	quietly := e.ours && k.o.OnEvict == nil // no code of a user runs
	if !k.unlink(e, word, idle, !quietly) {
		return false
	}
	if quietly {
		_ = e.close() // no caller to return its error to
	}
	return true
}

// unlink takes the partition out of the map and the table. tells says that it is to be told of.
func (k *Keyed[R, K]) unlink(e *entry[R, K], word uint64, idle time.Duration, tells bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() || idle == 0 && k.untoldNow.Load() >= k.maxUntold() || !e.dropLocked(word, idle) {
		return false
	}
	s := k.entriesOf(e)
	s.live.Delete(e.of.key)
	s.places--
	s.table.remove(e)
	k.counts.Dropped++
	if tells {
		k.untold = append(k.untold, e)
		k.untoldNow.Store(int64(len(k.untold)))
	}
	return true
}

// tell closes the limiters of dropped partitions and calls OnEvict, for n of them.
//
// One call at a time does so. A request of OnEvict may drop a partition to make room, and a later call tells of that: if
// each told of its own, their calls would be as deep in each other as there are idle partitions.
func (k *Keyed[R, K]) tell(n int) {
	for n > 0 && k.untoldNow.Load() > 0 && k.telling.take() {
		n -= k.tellOf(n)
	}
}

// tellOf is tell for a call that has k.telling, which it leaves. It returns of how many it has told.
func (k *Keyed[R, K]) tellOf(n int) (told int) {
	defer k.telling.leave()
	each(k.takeUntold, func(e *entry[R, K]) bool {
		told++
		_ = e.close() // no caller to return its error to
		if k.o.OnEvict != nil {
			k.o.OnEvict(e.of.key, e.limiter)
		}
		return told < n || !k.open.Load() // no later call comes after Close
	})
	return told
}

// takeUntold yields the partitions that are to be told of, the one first that was dropped first.
func (k *Keyed[R, K]) takeUntold(yield func(*entry[R, K]) bool) {
	for more := true; more; {
		k.mu.Lock()
		if len(k.untold) == 0 {
			k.mu.Unlock()
			return
		}
		e := k.untold[0]
		k.untold[0] = nil
		k.untold = k.untold[1:]
		k.untoldNow.Store(int64(len(k.untold)))
		k.mu.Unlock()
		more = yield(e)
	}
}

// turn is taken by one call at a time, while code of a user runs. That may call the Keyed, so no call waits for its turn
// for long.
type turn struct {
	taken atomic.Bool
	stuck atomic.Bool // a call has waited, and the one that has the turn has not left meanwhile
}

func (t *turn) isFree() bool { return !t.taken.Load() }

func (t *turn) take() bool {
	ok := t.taken.CompareAndSwap(false, true)
	if ok {
		t.stuck.Store(false)
	}
	return ok
}

// takeSoon is take, but lets a call that needs only a moment leave. One that does not leave may be waiting for
// the caller, so only one call tries for so long.
func (t *turn) takeSoon() bool {
	for range 1000 {
		if t.take() {
			return true
		}
		if t.stuck.Load() {
			return false
		}
		runtime.Gosched()
	}
	t.stuck.Store(true)
	return false
}

func (t *turn) leave() { t.taken.Store(false) }
