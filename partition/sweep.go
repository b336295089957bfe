package partition

import (
	"cmp"
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
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
	triesForRoom   = 3
	leastUntold    = 1024
)

// sweepSometimes looks at some partitions in one call of callsPerSweep.
func (k *Keyed[R, K]) sweepSometimes() {
	if rand.Uint32()%callsPerSweep == 0 {
		k.sweepSome(looksPerSweep)
	}
}

// sweepSome looks at the next n partitions and groups, and drops the ones that have been idle for
// IdleTimeout. It does nothing while another call tells. The caller has taken no permits yet, so a panic of
// OnEvict loses none.
func (k *Keyed[R, K]) sweepSome(n int) {
	if !k.telling.TryTake() {
		return
	}
	defer k.leave()
	var buffer [2 * looksPerSweep]*entry[R, K]
	now := k.now()
	due := slices.DeleteFunc(k.next(buffer[:0], n, n), func(e *entry[R, K]) bool { return !e.due(now, k.o.IdleTimeout) })
	if len(due) > 0 || k.untoldNow.Load() > 0 {
		k.sweep(slices.Values(due), nil, true)
	}
}

// now returns the nanoseconds since base.
func (k *Keyed[R, K]) now() int64 { return int64(time.Since(k.base)) }

// makeRoom drops a partition that is idle now and gives its place to c. It returns errNoRoom if it found none among
// those it looked at, and errBehind if it may find one when other calls have told of theirs. If others have dropped some
// of them meanwhile, it looks at the next ones.
func (k *Keyed[R, K]) makeRoom(c *creation[R, K]) error {
	for range triesForRoom {
		var buffer [looksForRoom]*entry[R, K]
		entries := k.next(buffer[:0], looksForRoom, 0)
		switch behind := k.sweepForRoom(entries, c); {
		case c.placed:
			return nil
		case behind:
			return errBehind
		case !slices.ContainsFunc(entries, (*entry[R, K]).dropped):
			return errNoRoom
		}
	}
	return errNoRoom
}

// sweepForRoom looks at entries for makeRoom. behind reports that it may drop none of them now.
func (k *Keyed[R, K]) sweepForRoom(entries []*entry[R, K], c *creation[R, K]) (behind bool) {
	tells := k.telling.TryTake()
	switch {
	case tells:
		defer k.leave()
	case k.isBehind():
		return true
	}
	k.sweep(slices.Values(entries), c, tells)
	return false
}

// catchUp waits for the calls that tell, and then tells of some partitions itself, so that there may be room again. It
// returns errNoRoom if it has waited for so long in vain.
func (k *Keyed[R, K]) catchUp(ctx context.Context, long time.Duration) error {
	call := k.closing.Begin(ctx)
	defer call.End()
	if !k.telling.takeSoon(call, long) {
		return cmp.Or(call.Ended(), errNoRoom)
	}
	defer k.leave()
	k.tell(looksForRoom)
	return nil
}

// isBehind reports whether so many dropped partitions have not been told of that only the call that tells drops another
// one to make room: the memory is bounded while OnEvict blocks.
func (k *Keyed[R, K]) isBehind() bool {
	return k.untoldNow.Load() >= int64(max(leastUntold, k.partitions.max))
}

// Sweep drops all partitions that may be dropped now and returns how many it dropped. If Options.OnEvict or a limiter
// panics, Sweep finishes the others first and then panics. It does nothing after Close. It waits for a call that is in
// OnEvict, but does nothing if that takes longer than a second, for example when OnEvict calls Sweep. A
// [core.ConcurrencyLimiter] measures its idle time from the first sweep that finds it idle, so only a later sweep drops
// it.
func (k *Keyed[R, K]) Sweep() int {
	if !k.telling.takeSoon(background, patience) {
		return 0
	}
	defer k.leave()
	defer func() { k.tell(int(k.untoldNow.Load())) }() // not of what is dropped meanwhile, which need not end
	return k.sweep(k.all, nil, true)
}

// sweep looks at partitions and groups, and drops the ones that have been idle for IdleTimeout. If c is not nil, it drops
// one that is idle, whose place c gets. Then it tells of as many, and of one more, so that those that others have dropped
// do not pile up. Unless the caller tells, it tells of none. One call at a time looks at limiters of users. If such a limiter
// uses the Keyed, that call looks at no others.
func (k *Keyed[R, K]) sweep(entries iter.Seq[*entry[R, K]], c *creation[R, K], tells bool) (dropped int) {
	if tells {
		defer func() { k.tell(dropped + 1) }()
	}
	looks := 0 // how many limiters of users it has looked at since it took k.looking
	defer func() {
		if looks > 0 {
			k.looking.leave()
		}
	}()
	now := k.now()
	each(entries, func(e *entry[R, K]) bool {
		switch {
		case !tells && k.isBehind():
			return false
		case e.ours:
		case looks == 0 && !k.looking.takeSoon(background, patience):
			return true
		default:
			looks++
		}
		if k.expire(e, now, c) {
			dropped++
		}
		if looks == pageSize { // others wait for it
			k.looking.leave()
			looks = 0
		}
		return c == nil || !c.placed
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

// expire drops the partition if its limiter has been idle for IdleTimeout, or is idle and c needs its place, and reports
// whether it did. Otherwise it notes when a sweep has to ask again.
func (k *Keyed[R, K]) expire(e *entry[R, K], now int64, c *creation[R, K]) bool {
	timeout := k.o.IdleTimeout
	if c != nil {
		timeout = 0
	}
	d, word, idle := e.idle()
	if idle && d >= timeout {
		dropped := k.drop(e, word, timeout, c)
		if dropped && k.isQuiet(e) {
			_ = e.close() // no caller to return its error to
		}
		return dropped
	}
	if !idle {
		d = 0
	}
	e.notBefore.Store(now + int64(k.o.IdleTimeout-d))
	return false
}

// isQuiet reports whether no code of a user runs when the partition is dropped.
func (k *Keyed[R, K]) isQuiet(e *entry[R, K]) bool { return e.ours && k.o.OnEvict == nil }

// drop takes the partition out of the map and the table if nothing has happened in it since its word was read and, if the
// limiter retires, it has still been idle for that time. If c is not nil, it gets the place. A call of tell follows,
// unless the partition is quiet.
func (k *Keyed[R, K]) drop(e *entry[R, K], word uint64, idle time.Duration, c *creation[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open.Load() || !e.dropLocked(word, idle) {
		return false
	}
	s := k.entriesOf(e)
	s.live.Delete(e.of.key)
	s.table.remove(e)
	if c != nil {
		c.placed = true
	} else {
		s.places--
	}
	k.counts.Dropped++
	if !k.isQuiet(e) {
		k.untold = append(k.untold, e)
		k.untoldNow.Store(int64(len(k.untold)))
	}
	return true
}

// tell closes the limiters of dropped partitions and calls OnEvict, for n of them. The caller has k.telling.
//
// A request of OnEvict may drop a partition to make room, and a later call tells of that: if each told of its own, their
// calls would be as deep in each other as there are idle partitions.
func (k *Keyed[R, K]) tell(n int) {
	if k.untoldNow.Load() == 0 {
		return
	}
	each(k.takeUntold, func(e *entry[R, K]) bool {
		n--
		_ = e.close() // no caller to return its error to
		if k.o.OnEvict != nil {
			k.o.OnEvict(e.of.key, e.limiter)
		}
		return n > 0 || !k.open.Load() // no later call comes after Close
	})
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

// leave leaves k.telling.
func (k *Keyed[R, K]) leave() {
	k.telling.leave()
	if !k.open.Load() {
		k.tellRest()
	}
}

// tellRest tells of what was dropped before Close. If another call tells, that call does.
func (k *Keyed[R, K]) tellRest() {
	if k.untoldNow.Load() > 0 && k.telling.TryTake() {
		defer k.telling.leave()
		k.tell(math.MaxInt)
	}
}
