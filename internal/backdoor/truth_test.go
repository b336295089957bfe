package backdoor_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/backdoor"
	"github.com/sluice-go/sluice/internal/testkit"
)

// known is a watched lease, and what is known of it beside it.
type known struct {
	core.Lease

	n     int
	since time.Duration
}

// ledger does at random what can be done with watched leases, one thing at a time in virtual
// time, and knows what the hook has to be told of it.
type ledger struct {
	*testing.T

	r       *rand.Rand
	l       *core.ConcurrencyLimiter
	w       observed
	began   time.Time
	told    ends
	held    []known
	ended   []core.Lease // released before
	granted chan known   // those that waited
}

const ledgerMost = 60

func newLedger(t *testing.T, seed uint64) *ledger {
	t.Helper()
	g := &ledger{T: t, r: rand.New(rand.NewPCG(seed, 1)), l: limiter(t, ledgerMost, 50), began: time.Now(), granted: make(chan known, 50)}
	g.w = watched(t, g.l, &g.told)
	return g
}

func (g *ledger) now() time.Duration { return time.Since(g.began) }

// out returns the permits that are held.
func (g *ledger) out() (n int) {
	for _, k := range g.held {
		n += k.n
	}
	return n
}

func (g *ledger) keep(l core.Lease) {
	if l.Acquired() && l.Permits() > 0 {
		g.held = append(g.held, known{l, l.Permits(), g.now()})
	}
}

// wait has somebody wait for n permits, or get them.
func (g *ledger) wait(n int) {
	go func() {
		if l, err := g.w.Acquire(g.Context(), n); err == nil {
			g.granted <- known{l, n, g.now()}
		}
	}()
	g.settle()
}

// settle takes note of those whose wait has ended.
func (g *ledger) settle() {
	synctest.Wait()
	for {
		select {
		case k := <-g.granted:
			g.held = append(g.held, k)
		default:
			return
		}
	}
}

// end ends the lease at i, by one copy or by several at once, and compares what the hook is
// told.
func (g *ledger) end(i int) {
	k, before := g.held[i], g.out()
	g.held = append(g.held[:i], g.held[i+1:]...)
	cause := backdoor.Cause(g.r.IntN(4))
	end := func() { g.w.End(k.Lease, cause) }
	switch g.r.IntN(5) {
	case 0:
		cause, end = backdoor.Released, k.Release
	case 1:
		cause, end = backdoor.Released, func() { core.ReleaseAll([]core.Lease{k.Lease, k.Lease}) }
	case 2:
		cause, end = backdoor.Refunded, func() { g.l.Refund(k.With(core.ReasonPhrase.With("copy"))) }
	case 3:
		cause, end = backdoor.Released, func() {
			var copies sync.WaitGroup
			for range 3 {
				copies.Go(k.Release)
			}
			copies.Wait()
		}
	}
	end()
	require.Equal(g, []told{{backdoor.End{Granted: k.since, Held: g.now() - k.since, Permits: k.n, InFlight: before}, cause}}, g.told.take())
	g.ended = append(g.ended, k.Lease)
	g.settle()
}

func (g *ledger) step() {
	switch p := g.r.IntN(100); {
	case p < 40:
		g.keep(g.w.TryAcquire(g.r.IntN(4)))
	case p < 45:
		g.wait(1 + g.r.IntN(6))
	case p < 80 && len(g.held) > 0:
		// Mostly the last, so that some are held for very long.
		g.end(max(g.r.IntN(len(g.held)), g.r.IntN(len(g.held))))
	case p < 90:
		time.Sleep(time.Duration(g.r.IntN(5000)))
	case p < 93:
		g.w.Resize(1 + g.r.IntN(ledgerMost))
		g.settle()
	case p < 94:
		g.l.IdleFor() // from here on the instants of releases are kept again
	case len(g.ended) > 0:
		// Whatever has come of its ticket, a lease that has ended ends no other.
		old := g.ended[g.r.IntN(len(g.ended))]
		old.Release()
		g.w.End(old, backdoor.Dropped)
		require.Empty(g, g.told.take())
	}
}

// The hook is told of each lease what is true: from when to when it was held, how many
// permits were out, and how it ended.
func TestEndsAreTrue(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newLedger(t, seed)
				for range 2000 {
					g.step()
				}
				g.w.Resize(ledgerMost) // so that nobody waits for ever
				g.settle()
				for len(g.held) > 0 {
					g.end(0)
				}
				require.Equal(t, ledgerMost, g.l.Available())
			})
		})
	}
}

// span is what a goroutine knows of a lease of its own: when it asked for it, had it, began to
// give it back and had done so; by the order of events, and by a clock that bounds the limiter's
// from below or above.
type span struct {
	n                        int
	asked, got, ending, done int64
	first, last              [2]time.Duration // bounds of the grant's instant, and of the release's
	end                      backdoor.End
}

// tumult is a limiter that many goroutines use at once. Each asks for a number of permits of
// its own, so that what the hook is told tells whose lease it was.
type tumult struct {
	w             observed
	events        atomic.Int64
	before, after time.Time // around the limiter's creation

	mu   sync.Mutex
	told [tumultWorkers + 1][]told
}

const tumultWorkers, tumultMost = 6, 24

func (u *tumult) Ended(c backdoor.Cause, e backdoor.End) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.told[e.Permits] = append(u.told[e.Permits], told{e, c})
}

// turn gets a lease of n permits and ends it, by two copies at once if i says so.
func (u *tumult) turn(t *testing.T, n, i int) span {
	t.Helper()
	s := span{n: n, asked: u.events.Add(1)}
	s.first[0] = time.Since(u.after)
	lease, err := u.w.Acquire(t.Context(), n)
	s.first[1] = time.Since(u.before)
	s.got = u.events.Add(1)
	if err != nil {
		t.Error(err)
	}
	if i%3 == 0 {
		runtime.Gosched()
	}
	cause := []backdoor.Cause{backdoor.Released, backdoor.Dropped}[i%2]
	s.ending = u.events.Add(1)
	s.last[0] = time.Since(u.after)
	var copies sync.WaitGroup
	if i%4 == 0 {
		copies.Go(func() { u.w.End(lease, cause) })
	}
	u.w.End(lease, cause)
	copies.Wait()
	s.last[1] = time.Since(u.before)
	s.done = u.events.Add(1)
	u.mu.Lock()
	mine := u.told[n]
	u.told[n] = nil
	u.mu.Unlock()
	if len(mine) != 1 || mine[0].cause != cause {
		t.Errorf("the hook was told %v of one end with cause %d", mine, cause)
		return s
	}
	s.end = mine[0].End
	return s
}

// check compares what the hook was told of s with what is known: permits that were held
// throughout its end were in flight, others only if they may have been at some moment of it.
func (s span) check(t *testing.T, all []span) {
	t.Helper()
	least, most := 0, 0
	for _, o := range all {
		if o.got < s.ending && o.ending > s.done || o == s {
			least += o.n
		}
		if o.asked < s.done && o.done > s.ending {
			most += o.n
		}
	}
	e := s.end
	if e.InFlight < least || e.InFlight > min(most, tumultMost) {
		t.Errorf("%d in flight, want %d to %d", e.InFlight, least, min(most, tumultMost))
	}
	if e.Granted < s.first[0] || e.Granted > s.first[1] || e.Granted+e.Held < s.last[0] || e.Granted+e.Held > s.last[1] {
		t.Errorf("granted %v, released %v, want within %v and within %v", e.Granted, e.Granted+e.Held, s.first, s.last)
	}
}

// The same where many goroutines get and end leases at once. What can't be known exactly is
// known to lie between bounds.
func TestStressEndsAreTrue(t *testing.T) {
	turns := 400
	if testkit.Race {
		turns = 100
	}
	u := &tumult{before: time.Now()}
	l := limiter(t, tumultMost, tumultMost)
	u.after = time.Now()
	u.w = watched(t, l, u)
	spans := make([][]span, tumultWorkers)
	var group sync.WaitGroup
	for i := range spans {
		group.Go(func() {
			for j := range turns {
				spans[i] = append(spans[i], u.turn(t, i+1, j))
			}
		})
	}
	for i := range turns {
		u.w.Resize(tumultWorkers + i*7%(tumultMost-tumultWorkers))
		runtime.Gosched()
	}
	u.w.Resize(tumultMost)
	group.Wait()
	all := slices.Concat(spans...)
	for _, s := range all {
		s.check(t, all)
	}
	require.Equal(t, tumultMost, l.Available())
}
