package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
)

// chainRig plays the same operations on a chain of a concurrency limiter and a bucket, on
// the two themselves, and on models of both. One Acquire of the chain waits at a time: of
// several the order in which they go on to the second limiter is open.
type chainRig struct {
	t        *testing.T
	chain    *core.ChainedLimiter
	slots    *core.ConcurrencyLimiter
	bucket   *core.TokenBucket
	a, b     *naive
	start    time.Time
	said     string
	grants   []chainGrant
	direct   []chainGrant // of the concurrency limiter alone
	waits    *chainWait
	closed   bool
	granted  uint64
	rejected uint64
}

type chainGrant struct {
	real     core.Lease
	ida, idb int
	n        int
	at       int64
	released bool
}

type chainWait struct {
	n      int
	a, b   *naiveWaiter // b: nil until a has granted
	err    error        // set when the chain ended it
	cancel context.CancelFunc
	done   atomic.Bool
	lease  core.Lease
	got    error
}

func FuzzChain(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) >= configBytes && len(input) <= configBytes+2*120 {
			playChain(t, input)
		}
	})
}

// TestRandomChainStories is a short walk of FuzzChain, the same each time.
func TestRandomChainStories(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range testkit.Rounds(400) {
		input := make([]byte, configBytes+2*random.IntN(120))
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		playChain(t, input)
	}
}

func playChain(t *testing.T, input []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		input := slices.Clone(input)
		input[2] &= 63 // small numbers, short times
		c := configOf(input)
		r := &chainRig{
			t: t, start: time.Now(),
			a: &naive{acct: naiveHeld{}, limit: int(input[7])%9 + 1, queueLimit: int(input[6]) % 9},
			b: &naive{
				acct: &naiveBucket{limit: c.limit, tokens: min(c.tokens, c.limit), period: c.length}, limit: c.limit, queueLimit: c.queueLimit, order: c.order, timed: true,
			},
		}
		var err error
		r.slots, err = core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
			Name: "slots", PermitLimit: r.a.limit, QueueLimit: r.a.queueLimit,
		})
		require.NoError(t, err)
		r.bucket, err = core.NewTokenBucket(core.TokenBucketOptions{
			Name: "bucket", TokenLimit: c.limit, TokensPerPeriod: min(c.tokens, c.limit), ReplenishmentPeriod: time.Duration(c.length),
			QueueLimit: c.queueLimit, QueueOrder: c.order,
		})
		require.NoError(t, err)
		r.chain, err = core.Chain(r.slots, r.bucket)
		require.NoError(t, err)
		for story := input[configBytes:]; len(story) >= 2; story = story[2:] {
			r.operation(story[0], story[1])
			r.settle()
		}
		r.end()
	})
}

func (r *chainRig) operation(op, arg byte) {
	n := int(arg)%(max(r.a.limit, r.b.limit)+3) - 1
	r.said = fmt.Sprintf("op %d(%d), n %d", op%10, arg, n)
	switch op % 10 {
	case 0, 1:
		r.tryAcquire(n)
	case 2, 3:
		r.acquire(n)
	case 4:
		l, a := r.slots.TryAcquire(n), r.a.tryAcquire(n)
		require.Equal(r.t, a.err == nil, l.Acquired(), r.said)
		if l.Acquired() {
			r.direct = append(r.direct, chainGrant{real: l, ida: a.id, n: n})
		}
	case 5:
		l, a := r.bucket.TryAcquire(n), r.b.tryAcquire(n)
		require.Equal(r.t, a.err == nil, l.Acquired(), r.said)
	case 6:
		r.giveBack(int(arg))
	case 7:
		d := int64(arg)
		time.Sleep(time.Duration(d))
		r.b.advance(r.b.now + d)
	case 8:
		r.endWait(arg)
	case 9:
		r.look()
	}
}

// refusal is what the chain answers without asking: an error of the caller's.
func (r *chainRig) refusal(n int) error {
	switch {
	case n < 0:
		return core.ErrNegativePermits
	case r.closed:
		return core.ErrClosed
	case n > r.a.limit || n > r.b.limit:
		return core.ErrPermitsExceedLimit
	}
	return nil
}

func (r *chainRig) tryAcquire(n int) {
	l := r.chain.TryAcquire(n)
	if err := r.refusal(n); err != nil {
		require.ErrorIs(r.t, l.Err(), err, r.said)
		return
	}
	a := r.a.tryAcquire(n)
	if a.err != nil {
		r.rejected++
		r.refusedBy(l, "slots", a)
		return
	}
	b := r.b.tryAcquire(n)
	if b.err != nil {
		r.a.give(a.id, n, 0, 0)
		r.rejected++
		r.refusedBy(l, "bucket", b)
		return
	}
	r.grantedAs(l, a, b)
}

func (r *chainRig) refusedBy(l core.Lease, who string, a *answer) {
	r.t.Helper()
	require.False(r.t, l.Acquired(), r.said)
	require.ErrorIs(r.t, l.Err(), a.err, r.said)
	name, _ := core.LimiterName.From(l)
	require.Equal(r.t, who, name, r.said)
	retry, _ := core.RetryAfter.From(l)
	require.Equal(r.t, a.retry, int64(retry), r.said)
}

func (r *chainRig) grantedAs(l core.Lease, a, b *answer) {
	r.t.Helper()
	require.True(r.t, l.Acquired(), r.said)
	require.Equal(r.t, a.n, l.Permits(), r.said)
	r.granted++
	name, _ := core.LimiterName.From(l)
	require.Equal(r.t, "slots", name, r.said)
	limit, _ := core.PermitLimit.From(l)
	require.Equal(r.t, a.limit, limit, r.said)
	remaining, _ := core.Remaining.From(l)
	require.Equal(r.t, a.remaining, remaining, r.said)
	reset, _ := core.ResetAfter.From(l)
	require.Equal(r.t, b.reset, int64(reset), r.said)
	r.grants = append(r.grants, chainGrant{real: l, ida: a.id, idb: b.id, n: a.n, at: b.at})
}

func (r *chainRig) acquire(n int) {
	if r.waits != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	w := &chainWait{n: n, cancel: cancel}
	r.waits = w
	if w.err = r.refusal(n); w.err == nil {
		w.a = r.a.acquire(n, core.Flow{}, naiveNever)
	}
	go func() {
		w.lease, w.got = r.chain.Acquire(ctx, n)
		w.done.Store(true)
	}()
}

// settle moves the model's waiter on to the second limiter, and compares.
func (r *chainRig) settle() {
	synctest.Wait()
	w := r.waits
	if w == nil {
		return
	}
	if w.err == nil && w.b == nil && w.a.answer != nil && w.a.answer.err == nil {
		w.b = r.b.acquire(w.n, core.Flow{}, naiveNever)
		if w.b.answer != nil && w.b.answer.err != nil {
			r.a.give(w.a.answer.id, w.n, 0, 0)
		}
	}
	switch {
	case w.err != nil:
		require.True(r.t, w.done.Load(), r.said)
		failed(r.t, w.err, w.got, w.n)
		require.Equal(r.t, w.got, w.lease.Err(), r.said)
	case w.a.answer == nil || w.b != nil && w.b.answer == nil:
		require.False(r.t, w.done.Load(), r.said)
		return
	case w.b == nil:
		r.rejected++
		require.ErrorIs(r.t, w.got, core.ErrRejected, r.said)
		r.refusedBy(w.lease, "slots", w.a.answer)
	case w.b.answer.err != nil:
		r.rejected++
		require.ErrorIs(r.t, w.got, core.ErrRejected, r.said)
		r.refusedBy(w.lease, "bucket", w.b.answer)
	default:
		require.NoError(r.t, w.got, r.said)
		r.grantedAs(w.lease, w.a.answer, w.b.answer)
	}
	w.cancel()
	r.waits = nil
	synctest.Wait()
}

func (r *chainRig) giveBack(i int) {
	if i%3 == 0 && len(r.direct) > 0 {
		g := &r.direct[i%len(r.direct)]
		g.real.Release()
		if !g.released {
			g.released = true
			r.a.give(g.ida, g.n, 0, 0)
		}
		return
	}
	if len(r.grants) == 0 {
		return
	}
	g := &r.grants[i%len(r.grants)]
	if i%2 == 0 && r.waits == nil && len(r.b.queue)+len(r.b.probes) == 0 { // a waiter of the chain might take what comes
		before := r.b.available()
		most := r.b.acct.most(g.idb, g.n, g.at)
		r.chain.Refund(g.real)
		given := r.bucket.Available() - before
		if g.released {
			require.Zero(r.t, given, r.said)
		}
		require.LessOrEqual(r.t, given, most, r.said)
		r.b.give(g.idb, given, 0, g.at)
	} else {
		g.real.Release()
	}
	if !g.released {
		g.released = true
		r.a.give(g.ida, g.n, 0, 0)
	}
}

// endWait ends the wait, by cancelling or, rarely, by closing the chain.
func (r *chainRig) endWait(arg byte) {
	err := context.Canceled
	if arg > 250 {
		r.closed = true
		err = core.ErrClosed
		require.NoError(r.t, r.chain.Close())
	}
	w := r.waits
	if w == nil {
		return
	}
	w.err = err
	if errors.Is(err, context.Canceled) {
		w.cancel()
	}
	r.a.cancel(w.a)
	if w.b != nil {
		r.b.cancel(w.b)
		r.a.give(w.a.answer.id, w.n, 0, 0)
	}
}

func (r *chainRig) look() {
	a, b := r.a.statistics(), r.b.statistics()
	require.Equal(r.t, a, r.slots.Statistics(), r.said)
	require.Equal(r.t, b, r.bucket.Statistics(), r.said)
	require.Equal(r.t, core.Statistics{
		Limit: min(a.Limit, b.Limit), Available: min(a.Available, b.Available), Queued: a.Queued + b.Queued,
		Granted: r.granted, Rejected: r.rejected,
	}, r.chain.Statistics(), r.said)
	require.Equal(r.t, min(a.Available, b.Available), r.chain.Available(), r.said)
	_, idle := r.chain.IdleFor()
	require.Equal(r.t, a.Available == a.Limit && b.Available == b.Limit, idle, r.said)
}

func (r *chainRig) end() {
	r.said = "the end"
	r.endWait(0)
	r.settle()
	r.look()
	for i := range r.grants {
		r.grants[i].real.Release()
		r.grants[i].real.Release()
	}
	for _, g := range r.direct {
		g.real.Release()
	}
	time.Sleep(1 << 20)
	require.Equal(r.t, r.a.limit, r.slots.Available())
	require.Equal(r.t, r.b.limit, r.bucket.Available())
}
