package partition

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/wait"
)

var ways = backdoor.Core[core.Limiter, core.Lease]()

// entry is a live partition or group: what the map and the table hold. It has 72 bytes if the key is a string, as
// there may be millions.
//
// A request and the drop of its partition must not miss each other. A limiter that was dropped answers
// with ErrClosed, atomically with its grants, and the request then looks for the next limiter of its
// key:
//
//   - core's own four do so themselves: backdoor.Ways.Retire closes one if it is idle.
//   - For any other limiter, the entry does it. Each request pins the entry before it asks the limiter,
//     and a drop needs an entry that has no pins and had none since the limiter reported that it is idle.
//
// An exchange by Refresh is a drop whose successor takes the entry's place in the same step, and which does not wait
// until the limiter is idle.
type entry[R any, K comparable] struct {
	of      keyLimiter[R, K] // what For returns while the entry is live, so that it allocates nothing
	limiter core.Limiter

	// over ends the waits in a limiter that is not closed: it is no io.Closer, or it stays in use. It is made when the
	// first request may have to wait there.
	over atomic.Pointer[wait.Source]

	// word is what requests and droppers share.
	//
	//	63          32   31        30      29     0
	//	 pins so far   dropped  replaced    pins
	//
	// pins is the number of requests that keep the entry now. The number of pins so far, which
	// wraps around, changes with every pin: it tells a dropper of a request that came and went.
	// dropped is set and cleared under Keyed.mu. replaced says that another entry took its place; it is set together
	// with dropped, and both stay.
	word atomic.Uint64

	// notBefore is when the limiter may have been idle for IdleTimeout at the earliest, going
	// by its latest answer, in nanoseconds since Keyed.base. Until then a sweep does not ask it.
	notBefore atomic.Int64

	slot    uint32 // slot in the table; guarded by Keyed.mu
	retires bool   // the limiter is one of core's own four
	ours    bool   // no code of a user runs in its IdleFor
	group   bool   // it decides for the keys of a group
}

func (k *Keyed[R, K]) newEntry(key K, l core.Limiter, group bool) *entry[R, K] {
	return &entry[R, K]{of: keyLimiter[R, K]{k, key}, limiter: l, retires: retires(l), ours: ours(l), group: group}
}

const (
	onePin      = 1<<32 + 1
	pinGone     = 1
	droppedBit  = 1 << 31
	replacedBit = 1 << 30
	pinsNow     = replacedBit - 1
)

// retires reports whether backdoor.Ways.Retire knows l. A type that embeds one of core's is not
// known: it may override any method.
func retires(l core.Limiter) bool {
	switch l.(type) {
	case *core.ConcurrencyLimiter, *core.TokenBucket, *core.FixedWindow, *core.SlidingWindow:
		return true
	}
	return false
}

var corePath = reflect.TypeFor[core.ConcurrencyLimiter]().PkgPath()

// ours reports whether no code of a user runs in l's IdleFor: it is one of core's limiters, and asks no others.
func ours(l core.Limiter) bool {
	if retires(l) {
		return true
	}
	t := reflect.TypeOf(l)
	if t.Kind() != reflect.Pointer || t.Elem().PkgPath() != corePath {
		return false
	}
	switch l := l.(type) {
	case *core.Switch:
		return false // it may ask another one later
	case interface{ Unwrap() core.Limiter }:
		return ours(l.Unwrap())
	case interface{ Limiters() []core.Limiter }:
		return !slices.ContainsFunc(l.Limiters(), func(part core.Limiter) bool { return !ours(part) })
	}
	return true
}

// ask calls the limiter. A wait ends when the limiter is closed or e.over ends; the answer is ErrClosed once the partition is
// dropped. It also reports whether the request has waited. The error of a try is in the lease alone.
func (e *entry[R, K]) ask(ctx context.Context, permits int, w way) (l core.Lease, waited bool, err error) {
	if e.retires {
		return e.askPinned(ctx, permits, w)
	}
	if !e.pin() {
		return core.Fail(core.ErrClosed), false, core.ErrClosed
	}
	defer e.unpin()
	return e.askPinned(ctx, permits, w)
}

func (e *entry[R, K]) askPinned(ctx context.Context, permits int, w way) (l core.Lease, waited bool, err error) {
	if w.try != nil {
		return w.try(e.limiter, permits), false, nil
	}
	if err := ctx.Err(); err != nil {
		return core.Fail(err), false, err
	}
	if l, ok := core.TryQuietly(e.limiter, permits); ok {
		return l, false, nil
	}
	return hold.Wait(ctx, e.source(), e.limiter, permits, w.waits)
}

// source returns what ends the waits in the limiter besides its Close.
func (e *entry[R, K]) source() *wait.Source {
	if e.over.Load() == nil {
		e.over.CompareAndSwap(nil, new(wait.Source))
	}
	return e.over.Load()
}

// pin keeps the entry until unpin, unless it returns false: the partition is dropped.
func (e *entry[R, K]) pin() bool {
	if e.word.Add(onePin)&droppedBit == 0 {
		return true
	}
	e.unpin()
	return false
}

func (e *entry[R, K]) unpin() { e.word.Add(^uint64(pinGone - 1)) }

// close closes the limiter and ends the waits in it.
func (e *entry[R, K]) close() error {
	if _, closes := e.limiter.(io.Closer); !closes {
		e.endWaits()
	}
	return closeLimiter(e.limiter)
}

// endWaits ends the waits in the limiter, which may stay open.
func (e *entry[R, K]) endWaits() { e.source().End(core.ErrClosed) }

// lost reports whether l decides nothing, so that the request has to look for its partition again: the limiter was
// replaced meanwhile, or it was called after its partition had been dropped. Then lost refunds l.
func (k *Keyed[R, K]) lost(e *entry[R, K], l core.Lease) bool {
	switch {
	case !e.dropped():
		return false
	case e.replaced():
		l.Refund()
		return true
	}
	return errors.Is(l.Err(), core.ErrClosed) && k.gone(e)
}

// gone is dropped, but waits for the decision of a dropper.
func (k *Keyed[R, K]) gone(e *entry[R, K]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return e.dropped()
}

// dropped reports whether the partition is dropped. It is true too while a dropper, with
// Keyed.mu held, tries.
func (e *entry[R, K]) dropped() bool { return e.word.Load()&droppedBit != 0 }

// replaced reports whether another entry has taken the place of e.
func (e *entry[R, K]) replaced() bool { return e.word.Load()&replacedBit != 0 }

// due reports whether a sweep at now calls the limiter. One of core's is asked when it may have
// been idle for the timeout; a user's is always asked, because its answer may not depend on the
// clock.
func (e *entry[R, K]) due(now int64, timeout time.Duration) bool {
	t := e.notBefore.Load()
	return !e.retires || now >= t || now < t-int64(timeout) // the clock jumped back
}

// idle returns how long the limiter has been idle and the word as it was before the limiter was
// called. It reports false if the limiter is not idle, or a request keeps the partition.
func (e *entry[R, K]) idle() (d time.Duration, word uint64, ok bool) {
	word = e.word.Load()
	if word&(droppedBit|pinsNow) != 0 {
		return 0, 0, false
	}
	idler, ok := e.limiter.(core.Idler)
	if !ok {
		return 0, 0, false
	}
	d, ok = idler.IdleFor()
	return d, word, ok
}

// dropLocked marks the entry as dropped unless a request has come since its word was read or, if
// the limiter retires, it has been idle for less time. Keyed.mu is held.
func (e *entry[R, K]) dropLocked(word uint64, idle time.Duration) bool {
	if !e.word.CompareAndSwap(word, word|droppedBit) {
		return false
	}
	// The mark comes first: a request that finds the limiter closed sees it.
	if e.retires && !ways.Retire(e.limiter, idle) {
		e.word.And(^uint64(droppedBit))
		return false
	}
	return true
}

// closeLimiter closes a limiter that is an io.Closer.
func closeLimiter(l core.Limiter) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
