package machine_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/fair"
	"github.com/sluice-go/sluice/internal/machine"
)

type limiter interface {
	core.Limiter
	core.Reporter
}

// request is an Acquire that waits, in core and in the machine.
type request struct {
	n        int
	deadline int64 // or Never
	cancel   context.CancelFunc
	result   chan result
	waiter   *machine.Waiter[*request]
	ended    bool
}

type result struct {
	lease core.Lease
	err   error
	at    int64
}

// pair plays the same requests to core, in a bubble, and to the machine.
type pair struct {
	t       *testing.T
	core    limiter
	m       *machine.Machine[*request]
	start   time.Time
	now     int64
	waiting []*request
	held    []core.Lease
}

var reasons = map[machine.Outcome]string{
	machine.Exhausted: "permits exhausted",
	machine.QueueFull: "queue limit reached",
	machine.Evicted:   "evicted by a newer request",
	machine.TooSoon:   "deadline too soon",
}

// same compares a lease with the answer.
func (p *pair) same(n int, l core.Lease, a machine.Answer) {
	p.t.Helper()
	t := p.m.Terms()
	require.Equal(p.t, a.Outcome == machine.Granted, l.Acquired())
	reason, _ := core.ReasonPhrase.From(l)
	require.Equal(p.t, reasons[a.Outcome], reason)
	if a.Outcome == machine.ExceedsLimit {
		require.ErrorIs(p.t, l.Err(), core.ErrPermitsExceedLimit)
		return
	}
	left, ok := core.Remaining.From(l)
	require.True(p.t, ok)
	require.Equal(p.t, a.Left, left)
	if reset, ok := core.ResetAfter.From(l); ok {
		require.Equal(p.t, a.FullAt-a.At, int64(reset))
	}
	if retry, ok := core.RetryAfter.From(l); ok {
		require.Equal(p.t, max(a.ReadyAt-a.At, 1), int64(retry))
	} else {
		require.False(p.t, a.Outcome.Rejected() && t.Timed())
	}
	if l.Acquired() && n > 0 && t.Kind == machine.Concurrency {
		p.held = append(p.held, l)
	}
}

// pass lets time pass, in the machine from event to event.
func (p *pair) pass(d int64) {
	time.Sleep(time.Duration(d))
	synctest.Wait()
	until := p.now + d
	for {
		at := min(p.m.Next(p.now), until)
		var ends *request
		for _, r := range p.waiting {
			if !r.ended && r.deadline < at {
				at, ends = r.deadline, r
			}
		}
		p.now = at
		p.m.Advance(at)
		if ends != nil {
			ends.ended = true
			require.True(p.t, p.m.Cancel(at, ends.waiter))
		}
		p.settle()
		if at == until && ends == nil && p.m.Next(at) > until {
			return
		}
	}
}

// settle compares those whose wait has ended.
func (p *pair) settle() {
	p.t.Helper()
	synctest.Wait()
	for w := p.m.Decided(); w != nil; w = w.Next() {
		r := w.Value
		r.ended = true
		select {
		case got := <-r.result:
			require.Equal(p.t, w.Answer.At, got.at)
			p.same(r.n, got.lease, w.Answer)
		default:
			require.Fail(p.t, "the machine has decided and core has not")
		}
	}
}

func (p *pair) acquire(n int, f core.Flow, deadline int64) {
	ctx, cancel := context.WithCancel(core.WithFlow(p.t.Context(), f))
	if deadline != machine.Never {
		cancel()
		ctx, cancel = context.WithDeadline(core.WithFlow(p.t.Context(), f), p.start.Add(time.Duration(deadline)))
	}
	r := &request{n: n, deadline: deadline, cancel: cancel, result: make(chan result, 1)}
	go func() {
		l, err := p.core.Acquire(ctx, n)
		r.result <- result{l, err, int64(time.Since(p.start))}
	}()
	synctest.Wait()
	a := p.m.Admit(p.now, n, deadline, fair.Flow(f))
	if a.Outcome != machine.Waiting {
		cancel()
		got := <-r.result
		p.same(n, got.lease, a)
		return
	}
	r.waiter = &machine.Waiter[*request]{N: n, Value: r}
	r.waiter.SetFlow(fair.Flow(f))
	p.m.Wait(p.now, r.waiter)
	p.waiting = append(p.waiting, r)
	p.settle()
}

func (p *pair) step(random *rand.Rand) {
	limit := p.m.Terms().Limit
	n := random.IntN(limit + 2)
	flow := core.Flow{Key: string(rune('a' + random.IntN(3))), Weight: random.IntN(4), Priority: random.IntN(2)}
	switch random.IntN(6) {
	case 0:
		p.same(n, p.core.TryAcquire(n), p.m.Try(p.now, n))
	case 1:
		p.acquire(n, flow, machine.Never)
	case 2:
		p.acquire(n, flow, p.now+1+2*random.Int64N(30))
	case 3:
		p.pass(2 * random.Int64N(12))
	case 4:
		if len(p.waiting) > 0 {
			r := p.waiting[random.IntN(len(p.waiting))]
			r.cancel()
			synctest.Wait()
			require.Equal(p.t, !r.ended, p.m.Cancel(p.now, r.waiter))
			r.ended = true
			p.settle()
		}
	case 5:
		if len(p.held) > 0 {
			i := random.IntN(len(p.held))
			l := p.held[i]
			p.held[i] = p.held[len(p.held)-1]
			p.held = p.held[:len(p.held)-1]
			l.Release()
			synctest.Wait()
			p.m.Release(p.now, l.Permits())
			p.settle()
		}
	}
	s := p.core.Statistics()
	require.Equal(p.t, p.m.Available(), s.Available)
	require.Equal(p.t, p.m.Queued(), s.Queued)
}

// The machine decides as core does, at the same instants.
func TestTheMachineAndCoreAgree(t *testing.T) {
	for name, kind := range map[string]machine.Kind{
		"concurrency": machine.Concurrency, "bucket": machine.TokenBucket, "window": machine.Window,
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, uint64(kind)))
			for range 400 {
				synctest.Test(t, func(t *testing.T) {
					p := newPair(t, kind, random)
					for range 60 {
						p.step(random)
					}
					for _, r := range p.waiting {
						r.cancel()
					}
				})
			}
		})
	}
}

// newPair returns a limiter and a machine of the same, random, terms.
func newPair(t *testing.T, kind machine.Kind, random *rand.Rand) *pair {
	t.Helper()
	terms := machine.Terms{Kind: kind, Limit: 1 + random.IntN(6), QueueLimit: random.IntN(9)}
	order := core.QueueOrder(random.IntN(3))
	switch order {
	case core.NewestFirst:
		terms.Mode = machine.NewestFirst
	case core.FairShare:
		terms.Mode = machine.FairShare
	}
	p := &pair{t: t, start: time.Now()}
	var err error
	switch kind {
	case machine.Concurrency:
		p.core, err = core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{
			PermitLimit: terms.Limit, QueueLimit: terms.QueueLimit, QueueOrder: order,
		})
	case machine.TokenBucket:
		terms.Step, terms.Span = 1+random.IntN(terms.Limit), 2+2*random.Int64N(5)
		p.core, err = core.NewTokenBucket(core.TokenBucketOptions{
			TokenLimit: terms.Limit, TokensPerPeriod: terms.Step, ReplenishmentPeriod: time.Duration(terms.Span),
			QueueLimit: terms.QueueLimit, QueueOrder: order,
		})
	case machine.Window:
		terms.Step = 1 + random.IntN(4)
		terms.Span = int64(terms.Step) * (2 + 2*random.Int64N(5))
		anchor := 2 * random.Int64N(20)
		if terms.From = anchor % terms.Span; terms.From > 0 {
			terms.From -= terms.Span
		}
		p.core, err = core.NewSlidingWindow(core.SlidingWindowOptions{
			PermitLimit: terms.Limit, Window: time.Duration(terms.Span), SegmentsPerWindow: terms.Step,
			Anchor: p.start.Add(time.Duration(anchor)), QueueLimit: terms.QueueLimit, QueueOrder: order,
		})
	}
	require.NoError(t, err)
	p.m = machine.New[*request](terms)
	return p
}
