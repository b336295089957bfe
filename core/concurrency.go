package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/direct"
	"github.com/sluice-go/sluice/internal/machine"
)

// ConcurrencyLimiterOptions are the options of a [ConcurrencyLimiter].
type ConcurrencyLimiterOptions struct {
	Name        string     // in metadata and errors; "": none
	PermitLimit int        // permits that may be held at once; at least 1
	QueueLimit  int        // permits that may wait; 0: requests do not wait; at least 0
	QueueOrder  QueueOrder // which waiter is served first
}

func (o ConcurrencyLimiterOptions) validate() error {
	f := faults{options: "ConcurrencyLimiterOptions"}
	f.atLeast("PermitLimit", o.PermitLimit, 1)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o ConcurrencyLimiterOptions) terms() terms {
	return newTerms(o.Name, time.Time{}, machine.Terms{
		Kind: machine.Concurrency, Limit: o.PermitLimit,
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, false),
	})
}

// ConcurrencyLimiter bounds how many permits are held at once: a lease holds its permits until
// it is released. It is a semaphore with leases, a bounded queue, and a limit that can change
// while in use. Its rejections have no [RetryAfter], because it cannot know when leases will be
// released.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler] and [io.Closer], safe for
// concurrent use. Make it with [NewConcurrencyLimiter]; requests to the zero value fail with
// [ErrClosed].
type ConcurrencyLimiter struct {
	engine
	permits permitAccount
}

// NewConcurrencyLimiter returns a limiter with all permits available, or an error that reports
// all invalid options.
func NewConcurrencyLimiter(o ConcurrencyLimiterOptions) (*ConcurrencyLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(ConcurrencyLimiter)
	l.start(o.terms(), &l.permits)
	return l, nil
}

// The word of a concurrency limiter's epoch:
//
//	 63   62   61          42 41     31 30           0
//	shut  hot   generation     beside       free
//
// free: permits that may be taken by subtracting them here.
//
// generation: counts the hot leases, which live in this word alone. hot: the lease of
// this generation is held. Taking it is one swap that takes the permits too, and giving it back
// is another. A lease that is granted while the hot one is held gets a ticket of its own.
//
// beside: counts the grants of tickets. When it overflows, they are added up under the mutex. If
// a lease is hot at that time, it stays in this epoch and a new epoch begins, so that a lease that
// is held for long does not keep all others from being hot.
const (
	hot = 1 << 62

	besideOne  = 1 << 31
	besideMask = 1<<generationShift - besideOne
	freeMask   = besideOne - 1
)

// TryAcquire takes permits if they are available now. It never blocks. If the limiter serves
// the oldest first, TryAcquire is rejected while another request waits, even if the permits are
// available.
func (l *ConcurrencyLimiter) TryAcquire(permits int) Lease {
	// The first half of tryQuietly, to save a call (bench: held).
	if t := l.epoch.Load(); t != nil {
		w := t.word.Load()
		if next := w + generationOne; uint64(permits)-1 < w&freeMask && next&(shut|hot) == 0 {
			next += hot - uint64(permits)
			if t.word.CompareAndSwap(w, next) {
				k := Lease{t: t, bits: next&(hot|generationMask) | uint64(permits)<<outcomeBits | uint64(held), state: t.left(next)}
				if t.watched {
					k = k.watch()
				}
				return k
			}
		}
	}
	return l.tryAcquireSlow(permits)
}

func (l *ConcurrencyLimiter) tryAcquireSlow(permits int) Lease {
	if k, ok := l.tryQuietly(permits); ok {
		return k
	}
	return l.engine.tryAcquireSlow(permits)
}

// Acquire takes permits, waiting for them if necessary and if the queue has room. If ctx is
// done, before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
func (l *ConcurrencyLimiter) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, ok := l.tryQuietly(permits); ok {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// tryQuietly takes n permits if that needs no mutex: the word has them, and no request waits.
// Otherwise it leaves no trace.
func (l *ConcurrencyLimiter) tryQuietly(n int) (Lease, bool) {
	t := l.epoch.Load()
	if t == nil {
		return Lease{}, false
	}
	w := t.word.Load()
	// Adding one to the last generation sets hot, so one test finds that too.
	if next := w + generationOne; uint64(n)-1 < w&freeMask && next&(shut|hot) == 0 {
		next += hot - uint64(n)
		if t.word.CompareAndSwap(w, next) {
			k := Lease{t: t, bits: next&(hot|generationMask) | uint64(n)<<outcomeBits | uint64(held), state: t.left(next)}
			if t.watched {
				k = k.watch()
			}
			return k, true
		}
	}
	t, w, ok := l.takeFree(n)
	if !ok {
		return Lease{}, false
	}
	k := Lease{t: l.permits.draw(&l.engine), state: t.left(w)}
	k.bits = k.t.word.Load()<<generationShift | uint64(n)<<outcomeBits | uint64(held)
	if t.watched {
		k = k.watch()
	}
	return k, true
}

// sureNot reports whether n permits that the word w does not have are nowhere else either.
func (t *ticket) sureNot(w uint64, n int) bool {
	return t != nil && w&shut == 0 && n > 0 && uint64(n) > w&freeMask
}

// takeFree takes n permits by a swap of the epoch's word, if they are available and no request
// waits. It returns the word after the swap, or the word that does not have the permits.
func (e *engine) takeFree(n int) (t *ticket, w uint64, ok bool) {
	if t = e.epoch.Load(); t == nil {
		return nil, 0, false
	}
	for {
		w = t.word.Load()
		if uint64(n)-1 >= w&freeMask || w&shut != 0 || w&besideMask == besideMask {
			return t, w, false
		}
		if next := w + besideOne - uint64(n); t.word.CompareAndSwap(w, next) {
			return t, next, true
		}
	}
}

// left returns the state of a lease: the limit, and the permits that are left in the word.
func (t *terms) left(w uint64) int64 { return int64(uint64(t.Limit)<<32 | w&freeMask) }

// leftOf is left for any limit. If the word has no room for the limit, the state has what is
// left alone, and is below 0, so that a lease reports the same under other terms.
func (t *terms) leftOf(left int) int64 {
	if t.Limit > freeMask {
		return ^int64(left)
	}
	return t.left(uint64(left))
}

func (t *terms) concurrencyFigures(state int64) (limit, left int) {
	if state < 0 {
		return t.Limit, int(^state)
	}
	return int(state >> 32), int(state & freeMask)
}

// release gives back what a lease holds: the hot one in one swap, unless a hook is notified.
func (l Lease) release() {
	t, w := l.t, l.t.word.Load()
	if w&hot != 0 && (w^l.bits)&(shut|hot|generationMask) == 0 && l.outcome() == held &&
		t.word.CompareAndSwap(w, w-hot+l.bits>>outcomeBits&maxPermits) {
		return
	}
	l.releaseSlow()
}

// giveUp ends a lease of a concurrency limiter and gives back all its permits but keep. It
// reports whether this call is the one that ended the lease. The hook of a watched lease is
// called.
func (l Lease) giveUp(cause direct.Cause, keep int) bool {
	k, n := l.home(), l.permits()
	epoch := k.e.epoch.Load()
	var inFlight int
	if l.bits&hot != 0 {
		var ok bool
		if inFlight, ok = k.giveBack(l.bits&(hot|generationMask), n-keep); !ok {
			return false
		}
	} else {
		if !k.end(l.generation()) {
			return false
		}
		inFlight, _ = epoch.giveBack(0, n-keep)
		k.e.m.Account().(*permitAccount).discard(k)
	}
	if keep == 0 && l.outcome() == watched {
		epoch.hook.Ended(cause, direct.End{
			Granted: time.Duration(l.at), Held: time.Duration(max(epoch.clock()-l.at, 0)), Permits: n, InFlight: inFlight,
		})
	}
	return true
}

// giveBack gives back n permits; if n is below 0, it takes them, available or not. A mark is
// that of the hot lease that had them; if that lease has ended before, giveBack does nothing
// and reports false. inFlight is the number of permits that were held before.
func (t *ticket) giveBack(mark uint64, n int) (inFlight int, ok bool) {
	for {
		w := t.word.Load()
		switch {
		case mark != 0 && (w^mark)&(hot|generationMask) != 0:
			return 0, false
		case w&shut != 0 || n < 0:
			return t.giveBackSlow(mark, n)
		case t.word.CompareAndSwap(w, w-mark&hot+uint64(n)):
			return t.Limit - int(w&freeMask), true
		}
	}
}

// giveBackSlow is giveBack under the mutex; t may be an old epoch.
func (t *ticket) giveBackSlow(mark uint64, n int) (inFlight int, ok bool) {
	e := t.e
	now := e.lock()
	w := t.word.Load()
	if ok = mark == 0 || (w^mark)&(hot|generationMask) == 0; ok {
		t.word.Store(w - mark&hot)
		inFlight = e.m.Terms().Limit - e.m.Account().(*permitAccount).Free(e.m.Terms())
		e.m.Release(now, n)
		e.idle(now)
	}
	e.unlock(now)
	return inFlight, ok
}

// Update puts new limits in force. Permits that are held stay held: if the new limit is lower,
// nothing is available until enough permits have come back. Queued requests stay queued. A
// waiter that now fits is served at once; a waiter for more than the new limit gets
// [ErrPermitsExceedLimit]. Invalid options change nothing and are reported, and equal options
// change nothing. After Close, Update returns [ErrClosed].
func (l *ConcurrencyLimiter) Update(o ConcurrencyLimiterOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// IdleFor returns a lower bound of how long no permit has been held, and whether none is held.
// The time is counted from when a call of IdleFor or Statistics, or a release that served
// waiters, first saw the limiter idle.
func (l *ConcurrencyLimiter) IdleFor() (time.Duration, bool) { return l.engine.IdleFor() }

// Refund releases the lease, as Release does. It ignores a lease of another limiter.
func (l *ConcurrencyLimiter) Refund(lease Lease) { l.engine.Refund(lease) }

// Options returns the options in force: those of [NewConcurrencyLimiter] or of the latest
// Update.
func (l *ConcurrencyLimiter) Options() ConcurrencyLimiterOptions {
	t := l.terms()
	return ConcurrencyLimiterOptions{Name: t.name, PermitLimit: t.Most(), QueueLimit: t.QueueLimit, QueueOrder: t.order()}
}

// String returns a human-readable line: the name, and the statistics.
func (l *ConcurrencyLimiter) String() string { return l.describe("concurrency limiter") }

// permits is the account of a concurrency limiter, and a pool of tickets for its leases.
type permitAccount struct {
	machine.Permits
	tickets atomic.Pointer[ticketPool] // nil: only ever one lease was held
}

func (p *permitAccount) seen(*ticket, uint64) int64 { return 0 }

func (p *permitAccount) takeBack(e *engine, t *ticket, w uint64, _ int64) {
	p.SetFree(&t.Terms, int(w&freeMask))
	e.granted.Add(w & besideMask / besideOne)
	if w&hot != 0 && w&besideMask == besideMask {
		e.renew(*t.terms)
	}
}

func (p *permitAccount) lend(_ *engine, t *ticket, _ int64) (w uint64, ok bool) {
	free := p.Free(&t.Terms)
	return t.word.Load()&^shut | uint64(free), free >= 0 && t.Limit <= freeMask
}

// grant counts a grant outside the word, as the mutex is held for it.
func (p *permitAccount) grant(e *engine, a machine.Answer, n int) Lease {
	e.granted.Add(1)
	t := e.epoch.Load()
	k := p.draw(e)
	l := grant(k, held, k.word.Load(), n, t.leftOf(a.Left), 0)
	if t.watched {
		l = l.watch()
	}
	return l
}
