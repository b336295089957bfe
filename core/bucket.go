package core

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/machine"
)

// TokenBucketOptions are the options of a [TokenBucket].
type TokenBucketOptions struct {
	Name                string        // in metadata and errors; "": none
	TokenLimit          int           // tokens that the bucket holds, which is the largest burst; at least 1
	TokensPerPeriod     int           // tokens that come each period; from 1 to TokenLimit
	ReplenishmentPeriod time.Duration // above 0
	QueueLimit          int           // permits that may wait; 0: requests do not wait; at least 0
	QueueOrder          QueueOrder    // which waiter is served first
	ManualReplenishment bool          // tokens come only in TryReplenish
}

func (o TokenBucketOptions) validate() error {
	f := faults{options: "TokenBucketOptions"}
	f.atLeast("TokenLimit", o.TokenLimit, 1)
	f.atLeast("TokensPerPeriod", o.TokensPerPeriod, 1)
	if o.TokensPerPeriod > o.TokenLimit && o.TokenLimit >= 1 {
		f.add("TokensPerPeriod", o.TokensPerPeriod, fmt.Sprintf(
			"at most the TokenLimit of %d, as more tokens at once never fit; for a rate per second with a smaller burst use core.PerSecond", o.TokenLimit))
	}
	f.positive("ReplenishmentPeriod", o.ReplenishmentPeriod)
	f.atLeast("QueueLimit", o.QueueLimit, 0)
	f.order(o.QueueOrder)
	return f.err()
}

func (o TokenBucketOptions) terms() terms {
	t := machine.Terms{
		Kind: machine.TokenBucket, Limit: o.TokenLimit, Step: o.TokensPerPeriod, Span: int64(o.ReplenishmentPeriod),
		QueueLimit: o.QueueLimit, Mode: mode(o.QueueOrder, o.ManualReplenishment),
	}
	t.Pack()
	return newTerms(o.Name, time.Time{}, t)
}

// Options returns the options in force: those of [NewTokenBucket] or of the latest Update.
func (l *TokenBucket) Options() TokenBucketOptions {
	t := l.terms()
	return TokenBucketOptions{
		Name: t.name, TokenLimit: t.Limit, TokensPerPeriod: t.Step, ReplenishmentPeriod: time.Duration(t.Span),
		QueueLimit: t.QueueLimit, QueueOrder: t.order(), ManualReplenishment: t.Manual(),
	}
}

// TokenBucket bounds a rate and allows bursts: a permit takes a token out of the bucket, and
// TokensPerPeriod tokens come back every ReplenishmentPeriod.
//
// The bucket starts full. When a request takes tokens from a full bucket, the bucket's clock
// starts, and tokens come every period from that instant; when the bucket is full again its
// clock stops. The level is computed from the elapsed time, in integers, when the bucket is
// used: nothing drifts, and nothing runs while no request waits. Waiters are granted their
// permits as of the exact instant at which the tokens come, however late a timer fires: the
// grants are those of a timer that is never late.
//
// It is a [Limiter], [Reporter], [Idler], [Refunder], [Settler], [Resetter], [Replenisher] and
// [io.Closer], safe for concurrent use. Make it with [NewTokenBucket]; requests to the zero
// value fail with [ErrClosed].
type TokenBucket struct {
	rate
	level bucketAccount
}

// NewTokenBucket returns a full bucket, or an error that reports all invalid options.
func NewTokenBucket(o TokenBucketOptions) (*TokenBucket, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := new(TokenBucket)
	l.start(o.terms(), &l.level)
	return l, nil
}

// TryAcquire takes permits if they are available now. It never blocks. If the limiter serves
// the oldest first, TryAcquire is rejected while another request waits, even if the permits are
// available.
func (l *TokenBucket) TryAcquire(permits int) Lease {
	k, answered := l.take(permits)
	if !answered {
		return l.tryAcquireSlow(permits)
	}
	if !k.Acquired() {
		l.rejected.Add(1)
	}
	return k
}

// Acquire takes permits, waiting for them if necessary and if the queue has room. If ctx is
// done, before or during the wait, Acquire returns ctx.Err(), unchanged, and keeps no permits.
// Under automatic replenishment, a request whose wait would outlast ctx's deadline is rejected
// at once, with an error that also matches [context.DeadlineExceeded].
func (l *TokenBucket) Acquire(ctx context.Context, permits int) (Lease, error) {
	if ctx.Err() == nil {
		if k, ok := l.tryQuietly(permits); ok {
			return k, nil
		}
	}
	return l.acquireSlow(ctx, permits)
}

// tryQuietly is TryAcquire that leaves no trace if it does not grant, and that reads only the
// word.
func (l *TokenBucket) tryQuietly(permits int) (Lease, bool) {
	k, _ := l.take(permits)
	return k, k.Acquired()
}

// The word of a bucket's epoch:
//
//	63
//	shut   generation   level: the instant at which it is full, and the spare
//
// Package machine packs the level, in StateBits. A bucket whose level does not fit does all
// under the mutex, and so does one that is in debt.

// take takes n permits if that needs no mutex: the level fits into the word, and no request
// waits. If it is certain that the permits are not available, it answers too: the lease is then
// a rejection, which has not been counted.
func (l *TokenBucket) take(n int) (_ Lease, answered bool) {
	t := l.epoch.Load()
	if t == nil || t.StateBits == 0 || uint64(n)-1 >= uint64(t.Limit) || uint64(n) > maxPermits {
		return Lease{}, false
	}
	for {
		// The word is read before the clock, so now is no earlier than anything in it; and
		// swapped after it, so it was right at now.
		w := t.word.Load()
		if w&shut != 0 {
			return Lease{}, false
		}
		now := t.clock() - t.From
		before := t.Unpack(w, now)
		after := before.Less(&t.Terms, n)
		if after.Full-now > after.Reach(&t.Terms) {
			return t.exhausted(n, now, before, after)
		}
		// Filling the level's bits makes 1 carry into the generation, and leaves them 0. A
		// generation too many carries into shut.
		next := (w | (1<<(t.StateBits&63) - 1)) + 1 + t.Word(after)
		if next&shut != 0 || !t.Fits(after) {
			return Lease{}, false
		}
		if t.word.CompareAndSwap(w, next) {
			return Lease{
				t: t, bits: next>>(t.StateBits&63)<<generationShift | uint64(n)<<outcomeBits | uint64(taken),
				state: after.Full - now, at: t.bucketAt(now, after.Spare),
			}, true
		}
	}
}

// exhausted returns the rejection of n permits, which an open word does not have; false if the
// bucket would be emptier than it can be, because the clock went back.
func (t *ticket) exhausted(n int, now int64, before, after machine.Level) (Lease, bool) {
	if before.Full-now > before.Reach(&t.Terms) {
		return Lease{}, false
	}
	return reject(t, exhausted, figures{
		permits: n, left: t.Limit - before.Lack(&t.Terms, now),
		retry: after.Full - after.Reach(&t.Terms) - now, reset: before.Full - now,
	}), true
}

// A bucket's lease has the time until the bucket is full in its state. Its instant is how long
// after From the grant was, with the spare of the level above. A lease of a bucket that is
// replenished by hand has what is left once all that is due has come, and the instant by which
// all tokens are due.

// bucketAt returns the instant of a lease.
func (t *terms) bucketAt(now int64, spare int) int64 {
	return now | int64(uint64(spare)<<(-t.SpareBits&63)) // with no bits for it, spare is 0
}

// bucketLevel is the reverse: the level after the grant, and the instant of the grant.
func (t *terms) bucketLevel(state, at int64) (l machine.Level, granted int64) {
	shift := 64 - t.SpareBits
	granted = t.From + int64(uint64(at)&(1<<shift-1))
	return machine.Level{Full: granted + state, Spare: int(uint64(at) >> shift)}, granted
}

func (t *terms) bucketFigures(state, at int64) (left int, reset int64) {
	if t.Manual() {
		return int(state), -1
	}
	l, granted := t.bucketLevel(state, at)
	return max(t.Limit-l.Lack(&t.Terms, granted), 0), state
}

// bucketGrant returns what Settle needs to know about a bucket's lease.
func (l Lease) bucketGrant(t *terms) machine.Grant {
	g := machine.Grant{Part: l.bits&part != 0}
	switch {
	case l.state == machine.Never:
		g.At, g.Lack, g.Level.Full = l.at, l.extra().lack, machine.Never
	case t.Manual():
		g.Lack = t.Limit - int(l.state)
		g.Level = machine.Level{Full: l.at, Spare: t.spare(g.Lack)}
	default:
		g.Level, g.At = t.bucketLevel(l.state, l.at)
		g.Lack = g.Level.Lack(&t.Terms, g.At)
	}
	return g
}

// spare returns the spare of the level that lacks that many tokens.
func (t *terms) spare(lack int) int { return int(t.Ticks(lack))*t.Step - lack }

// Update puts new limits in force. The bucket keeps its tokens, up to the new limit: growing
// adds none, shrinking leaves no debt, and a full bucket that grows fills up from then on. The
// next tokens come when they would have come, or one new period from now if that is sooner.
// Queued requests stay queued. A waiter that now fits is served at once; a waiter for more than
// the new limit gets [ErrPermitsExceedLimit]. Invalid options change nothing and are reported,
// and equal options change nothing. After Close, Update returns [ErrClosed].
func (l *TokenBucket) Update(o TokenBucketOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	return l.update(o.terms())
}

// ReplenishmentPeriod returns the time from one replenishment to the next.
func (l *TokenBucket) ReplenishmentPeriod() time.Duration { return time.Duration(l.terms().Span) }

// String returns a human-readable line: the name, the rate, and the statistics.
func (l *TokenBucket) String() string {
	t := l.terms()
	return l.describe(fmt.Sprintf("token bucket of %d per %v", t.Step, time.Duration(t.Span)))
}

// level is the account of a bucket.
type bucketAccount struct{ machine.Bucket }

// levelOf returns the level in a word with the instant at which it was or will be full.
func (b *bucketAccount) levelOf(t *ticket, w uint64) machine.Level {
	l := t.Unpack(w, -1)
	l.Full += t.From
	return l
}

func (b *bucketAccount) seen(t *ticket, w uint64) int64 {
	l := b.levelOf(t, w)
	return l.Full - l.Reach(&t.Terms) // an open word has no debt
}

func (b *bucketAccount) takeBack(_ *engine, t *ticket, w uint64, now int64) {
	b.SetLevel(&t.Terms, now, b.levelOf(t, w))
}

func (b *bucketAccount) lend(_ *engine, t *ticket, _ int64) (w uint64, ok bool) {
	if t.StateBits == 0 || b.Lack() > t.Limit {
		return 0, false
	}
	l := b.Level(&t.Terms)
	l.Full -= t.From
	ok = t.Fits(l)
	return t.word.Load()&^shut | t.Word(l), ok
}

func (b *bucketAccount) grant(e *engine, a machine.Answer, n int) Lease {
	t, generation := e.nextGeneration(a.At)
	lack := t.Limit - a.Left - b.Due()
	switch {
	case a.Whole == machine.Never: // too far off for the fields
		at := a.At
		if t.Manual() {
			at = b.Tick() // ticks that were due then come later
		}
		f := figures{permits: n, limit: t.Limit, left: a.Left, reset: e.resetAfter(a)}
		return grant(t, taken, generation, n, machine.Never, at).with(extra{home: t, figures: &f, lack: lack})
	case t.Manual():
		l := grant(t, taken, generation, n, int64(t.Limit-lack), a.Whole)
		if b.Due() > 0 { // the state has what is left when that has come
			l = l.with(extra{home: t, figures: &figures{permits: n, limit: t.Limit, left: a.Left, reset: -1}})
		}
		return l
	}
	return grant(t, taken, generation, n, a.Whole-a.At, t.bucketAt(a.At-t.From, t.spare(lack)))
}

// bucketOrigin returns from where on the word of a bucket counts: From, as long as there is
// room for what the word has to hold, which is about now, or since when the bucket is full.
func bucketOrigin(t *terms, b *bucketAccount, now int64) int64 {
	about, room := now, 63-t.SpareBits
	if t.StateBits > 0 {
		room = t.FullBits() - 1
		if b.Lack() == 0 {
			about = b.Level(&t.Terms).Full
		}
	}
	if about < t.From || uint64(about-t.From)>>room != 0 {
		return about
	}
	return t.From
}
