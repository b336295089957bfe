package redislimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// everything is what all limiters have in common.
type everything interface {
	core.Limiter
	core.Reporter
	core.Idler
	io.Closer
}

// twins are a limiter of core and one of this package with the same options, in a bubble;
// the server's clock is the bubble's.
type twins struct {
	t       *testing.T
	random  *rand.Rand
	local   everything
	remote  *redislimit.Limiter
	update  func(limit int) error // nil for a bucket, because core keeps the available tokens instead of the missing ones
	limit   int
	uneven  int // sleeps are less than that many nanoseconds longer than whole microseconds; a bucket's periods start when it is used
	grants  []twinGrant
	waiting []*twinWait
	said    string
	start   time.Time
}

type twinGrant struct {
	local, remote core.Lease
	whole         time.Time // a rate is full again if nothing more is taken
}

type twinWait struct {
	n             int
	cancel        context.CancelFunc
	local, remote twinCall
}

type twinCall struct {
	done  atomic.Bool
	lease core.Lease
	err   error
	at    time.Time
}

func (w *twins) say(format string, args ...any) {
	w.said = fmt.Sprintf("at %v: ", time.Since(w.start)) + fmt.Sprintf(format, args...)
	if testing.Verbose() {
		w.t.Log(w.said)
	}
}

// step does one thing to both, and compares all that is seen.
func (w *twins) step() {
	n := w.random.IntN(w.limit+2) - w.random.IntN(2)
	if w.random.IntN(3) > 0 {
		n = w.random.IntN(w.limit/2 + 1)
	}
	switch w.random.IntN(12) {
	case 0, 1, 2, 3:
		w.say("TryAcquire(%d)", n)
		w.same(w.local.TryAcquire(n), w.remote.TryAcquire(n), time.Now())
	case 4, 5, 6:
		w.acquire(n)
	case 7:
		w.cancel()
	case 8:
		w.giveBack()
	case 9, 10:
		d := time.Duration(w.random.IntN(700)) * time.Millisecond
		if w.random.IntN(3) == 0 {
			d = time.Duration(w.random.IntN(1000)) * 10 * time.Microsecond
		}
		d += time.Duration(w.random.IntN(w.uneven))
		w.say("sleep %v", d)
		time.Sleep(d)
	case 11:
		w.look()
	}
	w.settle()
}

// end releases all leases and ends the waits, and compares the results.
func (w *twins) end() {
	for _, g := range w.grants {
		g.local.Release()
		g.remote.Release()
		synctest.Wait()
	}
	w.say("the end")
	w.settle()
	for _, p := range w.waiting {
		p.cancel()
		synctest.Wait()
	}
	w.settle()
}

func (w *twins) look() {
	if w.update != nil && w.random.IntN(3) == 0 {
		w.limit = 2 + w.random.IntN(9)
		w.say("update to %d", w.limit)
		require.NoError(w.t, w.update(w.limit))
		require.NoError(w.t, w.remote.Apply(optionsOf(w.local)))
		return
	}
	w.say("look")
	require.Equal(w.t, w.available(w.local.Available(), w.remote.Available()), w.remote.Available(), w.said)
	here, there := w.local.Statistics(), w.remote.Statistics()
	here.Available = w.available(here.Available, there.Available)
	require.Equal(w.t, here, there, w.said)
}

// available returns how many permits should be available: none, if they may be promised to waiters.
func (w *twins) available(local, remote int) int {
	promised := slices.ContainsFunc(w.waiting, func(p *twinWait) bool { return p.n > 0 })
	if _, leases := w.local.(*core.ConcurrencyLimiter); promised && !leases && remote == 0 {
		return 0
	}
	return local
}

func (w *twins) acquire(n int) {
	timeout := time.Duration(0)
	if w.random.IntN(3) == 0 && len(w.waiting) == 0 {
		timeout = time.Duration(w.random.IntN(3000))*time.Millisecond + 3*time.Microsecond
	}
	w.say("Acquire(%d) within %v", n, timeout)
	ctx, cancel := context.WithCancel(w.t.Context())
	if timeout > 0 {
		cancel()
		ctx, cancel = context.WithTimeout(w.t.Context(), timeout)
	}
	p := &twinWait{n: n, cancel: cancel}
	go p.local.run(ctx, w.local, n)
	go p.remote.run(ctx, w.remote, n)
	w.waiting = append(w.waiting, p)
}

func (c *twinCall) run(ctx context.Context, l core.Limiter, n int) {
	c.lease, c.err = l.Acquire(ctx, n)
	c.at = time.Now()
	c.done.Store(true)
}

func (w *twins) cancel() {
	if len(w.waiting) > 0 {
		p := w.waiting[w.random.IntN(len(w.waiting))]
		w.say("cancel Acquire(%d)", p.n)
		p.cancel()
	}
}

func (w *twins) giveBack() {
	if len(w.grants) == 0 {
		return
	}
	i := w.random.IntN(len(w.grants))
	g := w.grants[i]
	release := w.random.IntN(2) == 0
	w.say("return %d, release %v, full at %v", g.local.Permits(), release, g.whole.Sub(w.start))
	if release {
		g.local.Release()
		g.remote.Release()
	} else {
		w.grants = slices.Delete(w.grants, i, i+1) // the store forgets a window when all its permits are returned
		g.local.Refund()
		g.remote.Refund()
	}
}

// settle waits until all goroutines are idle, and compares the requests whose wait has ended.
func (w *twins) settle() {
	synctest.Wait()
	rest := w.waiting[:0]
	for _, p := range w.waiting {
		require.Equal(w.t, p.local.done.Load(), p.remote.done.Load(), "%s: Acquire(%d) is over", w.said, p.n)
		if !p.local.done.Load() {
			rest = append(rest, p)
			continue
		}
		p.cancel()
		w.said += fmt.Sprintf(": Acquire(%d)", p.n)
		require.Equal(w.t, p.local.at, p.remote.at, w.said)
		if !errors.Is(p.local.err, core.ErrRejected) {
			require.Equal(w.t, p.local.err, p.remote.err, w.said)
		}
		require.Equal(w.t, p.remote.err, p.remote.lease.Err(), w.said)
		w.same(p.local.lease, p.remote.lease, p.local.at)
	}
	w.waiting = rest
}

// same requires the leases to agree.
func (w *twins) same(local, remote core.Lease, at time.Time) {
	w.t.Helper()
	require.Equal(w.t, local.Acquired(), remote.Acquired(), w.said)
	require.Equal(w.t, local.Permits(), remote.Permits(), w.said)
	require.Equal(w.t, w.errorOf(local, remote), w.errorOf(remote, remote), w.said)
	mine, others := metadata(local), metadata(remote)
	for name := range others {
		if _, ok := mine[name]; !ok && name != "FENCING_TOKEN" && name != "REDIS_GRANT" {
			require.Regexp(w.t, "^REDIS_LEASE_", name, w.said)
		}
	}
	if errors.Is(local.Err(), context.Canceled) || errors.Is(local.Err(), core.ErrPermitsExceedLimit) {
		return
	}
	for name, v := range mine {
		if local.Err() != nil && name != "RETRY_AFTER" && name != "REASON_PHRASE" && !errors.Is(local.Err(), core.ErrRejected) {
			continue
		}
		if name == "RETRY_AFTER" && len(w.waiting) > 0 { // behind a queue it is a lower bound
			require.Positive(w.t, others[name], w.said)
			require.LessOrEqual(w.t, others[name], up(v), w.said)
			continue
		}
		if left, ok := v.(int); ok && name == "REMAINING" {
			v = w.available(left, others[name].(int))
		}
		require.Equal(w.t, up(v), others[name], "%s: %s", w.said, name)
	}
	if local.Acquired() {
		reset, _ := core.ResetAfter.From(local)
		w.grants = append(w.grants, twinGrant{local, remote, at.Add(reset)})
	}
}

// up rounds a duration up to the microsecond.
func up(v any) any {
	if d, ok := v.(time.Duration); ok {
		if rest := d % time.Microsecond; rest > 0 {
			d += time.Microsecond - rest
		}
		return d
	}
	return v
}

// errorOf returns the part of a lease's error that can be compared. The other is the remote limiter's lease.
func (w *twins) errorOf(l, other core.Lease) any {
	if r := new(core.RejectedError); errors.As(l.Err(), &r) {
		c := *r
		if o := new(core.RejectedError); errors.As(other.Err(), &o) {
			c.Available = w.available(c.Available, o.Available)
		}
		if c.RetryAfter, _ = up(c.RetryAfter).(time.Duration); len(w.waiting) > 0 {
			c.RetryAfter = 0 // same compares it
		}
		return c
	}
	return l.Err()
}

func metadata(l core.Lease) map[string]any {
	return maps.Collect(l.Metadata())
}

// twinsOf returns twins of one kind.
func twinsOf(t *testing.T, kind string, random *rand.Rand, s redislimit.Options) *twins {
	t.Helper()
	w := &twins{t: t, random: random, start: time.Now(), limit: 2 + random.IntN(8), uneven: 1000}
	t.Cleanup(func() { // of a test that failed
		for _, g := range w.grants {
			g.remote.Release()
		}
	})
	queue, order := random.IntN(12), core.QueueOrder(random.IntN(2))
	switch kind {
	case "bucket":
		w.uneven = 1
		w.local = core.Must(core.NewTokenBucket(core.TokenBucketOptions{
			Name: "b", TokenLimit: w.limit, TokensPerPeriod: 1 + random.IntN(w.limit), QueueLimit: queue, QueueOrder: order,
			ReplenishmentPeriod: time.Duration(1+random.IntN(100_000)) * 10 * time.Microsecond,
		}))
	case "fixed", "calendar":
		o := core.FixedWindowOptions{Name: "f", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order}
		if kind == "calendar" {
			o.Calendar = endsIn(1 + random.IntN(3))
		} else {
			o.Anchor, o.Window = w.start, time.Duration(1+random.IntN(200_000))*10*time.Microsecond
		}
		l := core.Must(core.NewFixedWindow(o))
		w.local, w.update = l, func(limit int) error {
			o.PermitLimit = limit
			return l.Update(o)
		}
	case "sliding":
		o := core.SlidingWindowOptions{
			Name: "s", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order, Anchor: w.start, SegmentsPerWindow: 1 + random.IntN(20),
		}
		o.Window = time.Duration(o.SegmentsPerWindow) * time.Duration(1+random.IntN(20_000)) * 10 * time.Microsecond
		l := core.Must(core.NewSlidingWindow(o))
		w.local, w.update = l, func(limit int) error {
			o.PermitLimit = limit
			return l.Update(o)
		}
	default:
		o := core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order}
		l := core.Must(core.NewConcurrencyLimiter(o))
		w.local, w.update = l, func(limit int) error {
			o.PermitLimit = limit
			return l.Update(o)
		}
	}
	w.remote = core.Must(redislimit.New(optionsOf(w.local), s))
	t.Cleanup(func() { w.remote.Close() })
	return w
}

// endsIn returns a calendar whose day ends in about so many seconds.
func endsIn(seconds int) core.Calendar {
	offset := int(24*time.Hour/time.Second) - seconds - int(time.Now().Unix()%(24*60*60))
	return core.Daily(time.FixedZone(fmt.Sprintf("UTC+%ds", offset), offset))
}

// After an Update, a bucket counts by the new options. Leases from before a change of its rate return nothing.
func TestUpdateOfABucket(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second}
		prefetching := s.shared("key")
		prefetching.Prefetch = 4
		l, other := bucket(t, prefetching, o), bucket(t, s.shared("key"), o)
		update := func(limit int, period time.Duration) {
			t.Helper()
			o.TokenLimit, o.ReplenishmentPeriod = limit, period
			require.NoError(t, l.Apply(o))
		}
		lease := takes(t, l, 6) // and prefetches none
		update(12, time.Second)
		require.Equal(t, 6, l.Available())
		lease.Settle(5)
		require.Equal(t, 7, l.Available())
		update(3, time.Second)
		require.Zero(t, l.Available(), "in debt")
		update(10, time.Second)
		require.Equal(t, 5, other.Available())

		lease = takes(t, l, 1) // and prefetches 2
		require.Equal(t, 2, other.Available())
		update(10, time.Hour)
		require.Equal(t, 2, l.Available(), "prefetched permits are not spent at another rate")
		takes(t, l, 1)
		lease.Refund()
		require.Equal(t, 1, l.Available(), "a lease from before another rate returns nothing")
		update(10, time.Millisecond)
		time.Sleep(9 * time.Millisecond)
		require.Equal(t, 10, l.Available())
	})
}

// The server counts whole microseconds. A rejection of this process ends at the server's instant, also if the request before was
// made within a microsecond; and a reply that says that permits are available ends it earlier.
func TestARejectionEndsWithItsWindow(t *testing.T) {
	for _, kind := range []string{"fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				l := ofKind(t, kind, s.shared("key"), 5)
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				takes(t, l, 5)
				time.Sleep(900 * time.Nanosecond)
				refuses(t, l, 5) // the store's
				time.Sleep(30*time.Second + 100*time.Nanosecond)
				retry, _ := core.RetryAfter.From(refuses(t, l, 5)) // this process's
				require.Equal(t, 30*time.Second-time.Microsecond, retry)
				time.Sleep(retry)
				takes(t, l, 5)

				s.store.answer(lagging(time.Millisecond))
				time.Sleep(30 * time.Second)
				refuses(t, l, 5)
				s.store.answer(nil)
				time.Sleep(30*time.Second - time.Millisecond)
				require.Equal(t, 5, l.Available())
				takes(t, l, 5)
			})
		})
	}
}

// Where segments do not divide a window, each starts at the first microsecond of core's, which counts in nanoseconds.
func TestSegmentsOfUnequalLength(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		o := core.SlidingWindowOptions{PermitLimit: 7, Window: time.Second, SegmentsPerWindow: 7, Anchor: time.Now()}
		local, remote := core.Must(core.NewSlidingWindow(o)), sliding(t, s.shared("key"), o)
		for range 20 {
			takes(t, local, 1)
			takes(t, remote, 1)
			if local.Available() > 0 {
				time.Sleep(143 * time.Millisecond)
				continue
			}
			want, _ := core.RetryAfter.From(refuses(t, local, 1))
			got, _ := core.RetryAfter.From(refuses(t, remote, 1))
			require.Equal(t, up(want), got)
			time.Sleep(got)
		}
	})
}

// A time that is no whole number of microseconds is rounded up: a bucket's period, and what is left of a RetryAfter.
func TestTimesAreRoundedUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := bucket(t, s.shared("key"), core.TokenBucketOptions{TokenLimit: 1, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second - 999})
		require.Equal(t, time.Second, l.ReplenishmentPeriod())
		takes(t, l, 1)
		refuses(t, l, 1)
		time.Sleep(time.Nanosecond)
		retry, _ := core.RetryAfter.From(refuses(t, l, 1))
		require.Equal(t, time.Second, retry)
	})
}

// optionsOf returns the options of a limiter of package core.
func optionsOf(l core.Limiter) core.Options {
	switch l := l.(type) {
	case *core.TokenBucket:
		return l.Options()
	case *core.FixedWindow:
		return l.Options()
	case *core.SlidingWindow:
		return l.Options()
	}
	return l.(*core.ConcurrencyLimiter).Options()
}
