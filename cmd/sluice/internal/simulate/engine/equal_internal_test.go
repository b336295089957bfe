package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/spec"
)

// decision is what became of a request, and when.
type decision struct {
	request int
	granted bool
	at      int64
}

// traffic is random requests, no two at one instant.
func traffic(r *rand.Rand, n int, mean time.Duration) []Request {
	requests := make([]Request, n)
	at := int64(0)
	for i := range requests {
		requests[i] = Request{At: at, Took: 1 + int64(r.ExpFloat64()*float64(mean)*3), Status: i}
		at += 1 + int64(r.ExpFloat64()*float64(mean))
	}
	return requests
}

// simulated plays requests through one limit.
func simulated(t *testing.T, l spec.Limit, cost int, maxWait time.Duration, requests []Request) []decision {
	t.Helper()
	p, err := Of(spec.Limits{l}, "")
	require.NoError(t, err)
	p.Rules[0].MaxWait, p.Rules[0].Cost = int64(maxWait), cost
	var made []decision
	pl := playerOf(1, &made)
	pl.Zero = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano() // as in a bubble
	for _, q := range requests {
		q.Steps = p.Request(&accesslog.Record{}).Steps
		pl.Play(&q)
	}
	pl.Finish()
	return made
}

// playerOf returns a player that notes its decisions.
func playerOf(factor float64, made *[]decision) *Player {
	pl := NewPlayer(new(Stats), Scaled(factor))
	pl.Decided = func(now int64, q *Request, granted bool) { *made = append(*made, decision{q.Status, granted, now}) }
	return pl
}

// sleep waits for d nanoseconds, and starts no timer of 0: see testkit.Bubble.
func sleep(d int64) {
	if d > 0 {
		<-time.NewTimer(time.Duration(d)).C
	}
}

// decidedByCore lets core decide about the same requests, in a bubble.
func decidedByCore(t *testing.T, l spec.Limit, cost int, maxWait time.Duration, requests []Request) []decision {
	t.Helper()
	limiter, err := l.New("")
	require.NoError(t, err)
	start := time.Now()
	var mu sync.Mutex
	var made []decision
	var w sync.WaitGroup
	for _, q := range requests {
		w.Go(func() {
			sleep(q.At)
			ctx := t.Context()
			if maxWait > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, maxWait)
				defer cancel()
			}
			lease, err := limiter.Acquire(ctx, cost)
			mu.Lock()
			made = append(made, decision{q.Status, err == nil, int64(time.Since(start))})
			mu.Unlock()
			sleep(q.Took)
			lease.Release()
		})
	}
	w.Wait()
	return made
}

// decidesAlike finds every decision and its instant the same.
func decidesAlike(t *testing.T, l spec.Limit, cost int, maxWait time.Duration, requests []Request) {
	t.Helper()
	want := make([]decision, 0, len(requests))
	synctest.Test(t, func(t *testing.T) { want = decidedByCore(t, l, cost, maxWait, requests) })
	got := simulated(t, l, cost, maxWait, requests)
	byRequest := func(a, b decision) int { return cmp.Compare(a.request, b.request) }
	slices.SortFunc(want, byRequest)
	slices.SortFunc(got, byRequest)
	assert.Equal(t, want, got)
}

// randomLimit is a limit of any kind, queue and order, and a mean time between requests that it has something to decide about.
func randomLimit(r *rand.Rand) (text string, mean time.Duration) {
	n := 1 + r.IntN(30)
	per := time.Duration(1+r.IntN(200)) * time.Millisecond
	mean = time.Duration(100+r.IntN(10_000)) * time.Microsecond
	text = []string{
		fmt.Sprintf("%d/%v", n, per),
		fmt.Sprintf("%d/%v burst %d", n, per, 1+r.IntN(40)),
		fmt.Sprintf("fixed %d/%v", n, per),
		fmt.Sprintf("sliding %d/%v segments %d", n, per, 1+r.IntN(9)),
		fmt.Sprintf("concurrency %d", 1+r.IntN(6)),
		"unlimited",
		"calendar",
	}[r.IntN(7)]
	queues := []int{1, 2, 3, 5, 9, 17, 50, 200, 1000}
	switch text {
	case "unlimited":
		return text, mean
	case "calendar":
		c := calendars[r.IntN(len(calendars))]
		text, mean = fmt.Sprintf("fixed %d/%s", 10+n, c.period), c.mean
		queues = []int{1, 2, 3, 5, 9, 9, 9, 17, 17} // core wakes up every few minutes while a request waits
	}
	if q := r.IntN(12); q > 2 {
		text += fmt.Sprintf(" queue %d", queues[q-3])
		if r.IntN(2) == 0 {
			text += " newest-first"
		}
	}
	return text, mean
}

var calendars = []struct {
	period string
	mean   time.Duration
}{
	{"day tz Europe/Berlin", 30 * time.Minute},
	{"day tz Asia/Kathmandu", 30 * time.Minute},
	{"week from sunday tz America/New_York", 3 * time.Hour},
	{"month day 31 tz Europe/Berlin", 8 * time.Hour},
}

// TestDecisionsAreCoresOwn: each decision and its instant are those of core, under little traffic and under much, with bounded
// waits too.
func TestDecisionsAreCoresOwn(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for range 140 {
		text, mean := randomLimit(r)
		requests := traffic(r, 200, mean)
		maxWait := time.Duration(0) // any
		if r.IntN(3) == 0 {
			maxWait = 1 + time.Duration(r.Int64N(100*int64(mean))) // no two things at one instant
		}
		t.Run(fmt.Sprint(text, " max-wait ", maxWait), func(t *testing.T) {
			t.Logf("seed %d", seed)
			decidesAlike(t, limitOf(t, text), 1+r.IntN(4), maxWait, requests)
		})
	}
}

// The log's times say which window it is, and each half and double of the limit has its own.
func TestACalendarByTheLogsTimes(t *testing.T) {
	l := limitOf(t, "fixed 2/day tz America/Los_Angeles")
	for factor, want := range map[float64][]bool{
		0.5: {true, false, false, true},
		1:   {true, true, false, true},
		2:   {true, true, true, true},
	} {
		p, err := Of(spec.Limits{l}, "")
		require.NoError(t, err)
		var made []decision
		pl := playerOf(factor, &made)
		pl.Zero = time.Date(2026, time.June, 2, 6, 59, 57, 0, time.UTC).UnixNano() // three seconds before midnight
		for i := range want {
			pl.Play(&Request{At: int64(i) * int64(time.Second), Steps: p.Request(&accesslog.Record{}).Steps})
		}
		pl.Finish()
		for i, d := range made {
			assert.Equal(t, want[i], d.granted, "%v: %d", factor, i)
		}
	}
}
