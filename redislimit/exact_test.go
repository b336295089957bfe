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

// everything is what all limiters are.
type everything interface {
	core.Limiter
	core.Reporter
	core.Idler
	core.Settler
	core.Refunder
	io.Closer
}

// twins are a limiter of core and one of this package with the same options, in a bubble;
// the server's clock is the bubble's.
type twins struct {
	t       *testing.T
	random  *rand.Rand
	local   everything
	remote  everything
	update  func(limit int) error // nil for a bucket, of which core keeps the tokens and not what is taken
	limit   int
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
		w.say("sleep %v", d)
		time.Sleep(d)
	case 11:
		w.look()
	}
	w.settle()
}

// end gives all back, and ends the waits, still alike.
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
		return
	}
	w.say("look")
	require.Equal(w.t, w.local.Available(), w.remote.Available(), w.said)
	require.Equal(w.t, w.local.Statistics(), w.remote.Statistics(), w.said)
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
	w.say("give back %d, release %v, whole at %v", g.local.Permits(), release, g.whole.Sub(w.start))
	if release {
		g.local.Release()
		g.remote.Release()
	} else {
		w.grants = slices.Delete(w.grants, i, i+1) // the store forgets a window of which all was given back
		w.local.Refund(g.local)
		w.remote.Refund(g.remote)
	}
}

// settle waits until all has come to rest, and compares those whose wait is over.
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

// same finds the leases to say the same.
func (w *twins) same(local, remote core.Lease, at time.Time) {
	w.t.Helper()
	require.Equal(w.t, local.Acquired(), remote.Acquired(), w.said)
	require.Equal(w.t, local.Permits(), remote.Permits(), w.said)
	require.Equal(w.t, w.errorOf(local), w.errorOf(remote), w.said)
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
		if w.errorOf(local) != nil && name != "RETRY_AFTER" && name != "REASON_PHRASE" && !errors.Is(local.Err(), core.ErrRejected) {
			continue
		}
		if name == "RETRY_AFTER" && len(w.waiting) > 0 { // behind a queue it is a lower bound
			require.Positive(w.t, others[name], w.said)
			require.LessOrEqual(w.t, others[name], up(v), w.said)
			continue
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

// errorOf returns what can be compared of an error.
func (w *twins) errorOf(l core.Lease) any {
	if r := new(core.RejectedError); errors.As(l.Err(), &r) {
		c := *r
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
func twinsOf(t *testing.T, kind string, random *rand.Rand, s redislimit.StoreOptions) *twins {
	t.Helper()
	w := &twins{t: t, random: random, start: time.Now(), limit: 2 + random.IntN(8)}
	t.Cleanup(func() { // of a test that failed
		for _, g := range w.grants {
			g.remote.Release()
		}
	})
	queue, order := random.IntN(12), core.QueueOrder(random.IntN(2))
	must := func(err error) { require.NoError(t, err) }
	switch kind {
	case "bucket":
		o := core.TokenBucketOptions{
			Name: "b", TokenLimit: w.limit, TokensPerPeriod: 1 + random.IntN(w.limit), QueueLimit: queue, QueueOrder: order,
			ReplenishmentPeriod: time.Duration(1+random.IntN(100_000)) * 10 * time.Microsecond,
		}
		l, err := core.NewTokenBucket(o)
		must(err)
		w.local, w.remote = l, bucket(t, s, o)
	case "fixed":
		o := core.FixedWindowOptions{
			Name: "f", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order, Anchor: w.start,
			Window: time.Duration(1+random.IntN(200_000)) * 10 * time.Microsecond,
		}
		l, err := core.NewFixedWindow(o)
		must(err)
		r := fixed(t, s, o)
		w.local, w.remote = l, r
		w.update = func(limit int) error {
			o.PermitLimit = limit
			return errors.Join(l.Update(o), r.Update(redislimit.FixedWindowOptions{FixedWindowOptions: o}))
		}
	case "calendar":
		o := core.FixedWindowOptions{Name: "f", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order, Calendar: endsIn(1 + random.IntN(3))}
		l, err := core.NewFixedWindow(o)
		must(err)
		r := fixed(t, s, o)
		w.local, w.remote = l, r
		w.update = func(limit int) error {
			o.PermitLimit = limit
			return errors.Join(l.Update(o), r.Update(redislimit.FixedWindowOptions{FixedWindowOptions: o}))
		}
	case "sliding":
		o := core.SlidingWindowOptions{
			Name: "s", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order, Anchor: w.start,
			SegmentsPerWindow: 1 + random.IntN(20),
		}
		o.Window = time.Duration(o.SegmentsPerWindow) * time.Duration(1+random.IntN(20_000)) * 10 * time.Microsecond
		l, err := core.NewSlidingWindow(o)
		must(err)
		r := sliding(t, s, o)
		w.local, w.remote = l, r
		w.update = func(limit int) error {
			o.PermitLimit = limit
			return errors.Join(l.Update(o), r.Update(redislimit.SlidingWindowOptions{SlidingWindowOptions: o}))
		}
	default:
		o := core.ConcurrencyLimiterOptions{Name: "c", PermitLimit: w.limit, QueueLimit: queue, QueueOrder: order}
		l, err := core.NewConcurrencyLimiter(o)
		must(err)
		r := concurrency(t, s, o)
		w.local, w.remote = l, r
		w.update = func(limit int) error {
			o.PermitLimit = limit
			return errors.Join(l.Update(o), r.Update(redislimit.ConcurrencyLimiterOptions{ConcurrencyLimiterOptions: o}))
		}
	}
	return w
}

// endsIn returns a calendar whose day ends in about so many seconds.
func endsIn(seconds int) core.Calendar {
	offset := int(24*time.Hour/time.Second) - seconds - int(time.Now().Unix()%(24*60*60))
	return core.Daily(time.FixedZone(fmt.Sprintf("UTC+%ds", offset), offset))
}

// What was decided at the same instants by one limiter of core is decided the same.
func TestDecidesAsCore(t *testing.T) {
	seeds, steps := 25, 150
	if testing.Short() {
		seeds = 10
	}
	for _, kind := range []string{"bucket", "fixed", "calendar", "sliding", "concurrency"} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", kind, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := serve(t)
					w := twinsOf(t, kind, rand.New(rand.NewPCG(uint64(seed), 1)), s.shared("key"))
					for range steps {
						w.step()
					}
					w.end()
				})
			})
		}
	}
}
