package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/backoff"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/limit/policy"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

// The requests of these tests are strings.
type (
	thePolicy    = policy.Policy[string, any]
	theSet       = policy.Set[string, any]
	theOptions   = policy.Options[string, any]
	theAdmission = policy.Admission[string, any]
)

func newPolicy(l core.Limiter) *thePolicy {
	return &thePolicy{Name: "p", Limiter: partition.Shared[string](l), Rejected: policy.RejectedByPolicy}
}

// under returns an admission under policies.
func under(t *testing.T, o theOptions, policies ...*thePolicy) *theAdmission {
	t.Helper()
	return underSet(t, &theSet{Package: "test"}, o, policies...)
}

func underSet(t *testing.T, s *theSet, o theOptions, policies ...*thePolicy) *theAdmission {
	t.Helper()
	for _, p := range policies {
		o.Policies = append(o.Policies, *p)
	}
	require.NoError(t, s.Update(o, nil))
	return &theAdmission{Snapshot: s.Load()}
}

// admits checks that a request is admitted.
func admits(t *testing.T, a *theAdmission, r string) {
	t.Helper()
	require.Nil(t, a.Admit(t.Context(), r, policy.Wait))
}

// rejects checks that a request is not.
func rejects(t *testing.T, a *theAdmission, r string, want policy.Result) *policy.Rejection[string, any] {
	t.Helper()
	rejection := a.Admit(t.Context(), r, policy.Wait)
	require.NotNil(t, rejection)
	require.Equal(t, want, rejection.Result)
	require.Error(t, rejection.Err)
	return rejection
}

func concurrency(t *testing.T, permits int) *core.ConcurrencyLimiter {
	t.Helper()
	return core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: 10}))
}

// bucket returns a bucket of 5 tokens, one of which comes each second.
func bucket(t *testing.T) *core.TokenBucket {
	t.Helper()
	return core.Must(core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10}))
}

// limiterFunc is a limiter by a function.
type limiterFunc func(ctx context.Context, n int) (core.Lease, error)

func (f limiterFunc) TryAcquire(n int) core.Lease { l, _ := f(nil, n); return l }

func (f limiterFunc) Acquire(ctx context.Context, n int) (core.Lease, error) { return f(ctx, n) }
func (limiterFunc) Available() int                                           { return 0 }

func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucket(t)
		p := newPolicy(l)
		p.Cost = func(r string) int { return len(r) }
		a := under(t, theOptions{}, p)
		admits(t, a, "four")
		require.Len(t, a.Decisions, 1)
		again := &theAdmission{Snapshot: a.Snapshot}
		rejection := rejects(t, again, "two", policy.RejectedByPolicy)
		require.ErrorIs(t, rejection.Err, core.ErrRejected)
		require.Equal(t, 2*time.Second, rejection.RetryAfter)
		require.Len(t, rejection.Decisions, 1)
		require.Empty(t, again.Decisions)
		rejection = rejects(t, again, "sixsix", policy.RejectedByPolicy)
		require.Zero(t, rejection.RetryAfter)
		admits(t, again, "") // the policy does not apply
		require.Empty(t, again.Decisions)
		a.Undo()
		require.Equal(t, 5, l.Available())
	})
}

// Policies decide in order, all or nothing, and each once unless it is named again.
func TestPolicies(t *testing.T) {
	first, second := concurrency(t, 2), concurrency(t, 1)
	a, b := newPolicy(first), newPolicy(second)
	b.Name, b.Applies = "b", func(r string) bool { return r == "b" }
	one := under(t, theOptions{}, a, b)
	admits(t, one, "b")
	admits(t, one, "b") // both have decided
	require.Equal(t, 1, first.Available())
	two := &theAdmission{Snapshot: one.Snapshot}
	require.Equal(t, "b", rejects(t, two, "b", policy.RejectedByPolicy).Policy.Name)
	require.Equal(t, 1, first.Available())
	admits(t, two, "other")
	require.Zero(t, first.Available())
	two.Release()
	one.Release()
	three := &theAdmission{Snapshot: one.Snapshot}
	require.Nil(t, three.Admit(t.Context(), "b", policy.Try, "p", "p", "unknown"))
	require.Zero(t, first.Available())
	three.Release()
	require.Equal(t, 2, first.Available())
	require.Equal(t, 1, second.Available())
}

// Early leaves policies that allow a wait to a later Admit.
func TestEarly(t *testing.T) {
	for _, maxWait := range []time.Duration{time.Hour, -1} {
		t.Run(maxWait.String(), func(t *testing.T) {
			first, second := concurrency(t, 1), concurrency(t, 1)
			a, b := newPolicy(first), newPolicy(second)
			b.Name, a.MaxWait = "b", maxWait
			adm := under(t, theOptions{}, a, b)
			require.Nil(t, adm.Admit(t.Context(), "", policy.Early))
			require.Equal(t, 1, first.Available())
			require.Zero(t, second.Available())
			admits(t, adm, "")
			require.Zero(t, first.Available())
			require.Len(t, adm.Decisions, 2)
			adm.Release()
			require.Equal(t, 1, first.Available())
			require.Equal(t, 1, second.Available())
		})
	}
}

func TestAPolicyWithoutALimiter(t *testing.T) {
	adm := under(t, theOptions{}, &thePolicy{Name: "p"})
	admits(t, adm, "")
	require.Len(t, adm.Decisions, 1)
	lease, ok := adm.Lease()
	require.False(t, ok)
	require.False(t, lease.Acquired())
	adm.End(func(any) (bool, int) { t.Error("there is no lease"); return false, -1 })
	adm.Undo()
}

func TestUpdate(t *testing.T) {
	s := &theSet{Package: "test"}
	underSet(t, s, theOptions{Global: newPolicy(core.Unlimited())}, &thePolicy{Name: "q"})
	before := s.Load()
	require.True(t, before.Applies("r", []string{""}))
	require.True(t, before.Applies("r", []string{"none", "q"}))
	require.False(t, before.Applies("r", []string{"p"}), "the global policy is found as \"\"")
	require.PanicsWithValue(t, `test: no policy is named ""`, func() { before.MustHave([]string{""}) })
	require.PanicsWithValue(t, `test: no policy is named "*"`, func() { before.MustHave([]string{"*"}) })
	require.PanicsWithValue(t, `test: no policy is named "p"`, func() { s.Use([]string{"q", "p"}) })
	s.Use([]string{"q"})

	odd := errors.New("odd")
	err := s.Update(theOptions{}, odd)
	require.ErrorIs(t, err, odd)
	require.ErrorContains(t, err, `test: Options.Policies has no "q", want one`)
	require.Same(t, before, s.Load())
	require.NoError(t, s.Update(theOptions{Policies: []thePolicy{{Name: "q"}}, Skip: func(r string) bool { return r == "skip" }}, nil))
	require.True(t, s.Load().Applies("r", []string{"q"}))
	require.False(t, s.Load().Applies("skip", []string{"q"}))
	require.True(t, before.Applies("skip", []string{"q"}), "a snapshot does not change")
}

func TestErrors(t *testing.T) {
	f := policy.ErrorsOf("test")
	require.NoError(t, f.Err())
	for i, name := range []string{"a", "Z9-_.", "", "a b", "é", "a", "[", "@"} {
		f.CheckName(strconv.Itoa(i), name)
	}
	require.EqualError(t, f.Err(), `test: Options.2.Name = "", want ASCII letters, digits, '-', '_' and '.'
test: Options.3.Name = "a b", want ASCII letters, digits, '-', '_' and '.'
test: Options.4.Name = "é", want ASCII letters, digits, '-', '_' and '.'
test: Options.5.Name = "a", want a name that no other policy has
test: Options.6.Name = "[", want ASCII letters, digits, '-', '_' and '.'
test: Options.7.Name = "@", want ASCII letters, digits, '-', '_' and '.'`)
}

func TestMaxWait(t *testing.T) {
	for name, test := range map[string]struct {
		maxWait, deadline, freed time.Duration
		cancels, wait            bool
		want                     policy.Result
		took                     time.Duration
	}{
		"no request waits":      {0, 0, 0, false, true, policy.RejectedByPolicy, 0},
		"without wait":          {time.Hour, 0, 0, false, false, policy.RejectedByPolicy, 0},
		"over":                  {time.Second, time.Minute, 0, false, true, policy.RejectedByPolicy, time.Second},
		"granted":               {time.Second, 0, 999 * time.Millisecond, false, true, policy.Acquired, 999 * time.Millisecond},
		"no bound":              {-1, 0, time.Hour, false, true, policy.Acquired, time.Hour},
		"a deadline":            {-1, time.Second, 0, false, true, policy.RejectedByPolicy, time.Second},
		"a client's deadline":   {-1, time.Second, 0, true, true, policy.RequestCanceled, time.Second},
		"MaxWait before it":     {time.Second, time.Minute, 0, true, true, policy.RejectedByPolicy, time.Second},
		"the deadline is first": {time.Minute, time.Second, 0, true, true, policy.RequestCanceled, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 1)
				held := l.TryAcquire(1)
				if test.freed > 0 {
					time.AfterFunc(test.freed, held.Release)
				}
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				p := newPolicy(l)
				p.MaxWait = test.maxWait
				adm := underSet(t, &theSet{DeadlineCancels: test.cancels}, theOptions{}, p)
				mode := policy.Try
				if test.wait {
					mode = policy.Wait
				}
				start, got := time.Now(), policy.Acquired
				if rejection := adm.Admit(ctx, "", mode); rejection != nil {
					got = rejection.Result
					require.Error(t, rejection.Err)
				}
				require.Equal(t, test.want, got)
				require.Equal(t, test.took, time.Since(start))
				require.Zero(t, l.Statistics().Queued)
				adm.Release()
			})
		})
	}
}

// A request that has ended asks no limiter for permits.
func TestARequestThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, j := newPolicy(limiterFunc(func(context.Context, int) (core.Lease, error) { panic("asked") })), new(journal)
	p.MaxWait = -1
	rejection := under(t, theOptions{Observer: j}, p).Admit(ctx, "", policy.Wait)
	require.Equal(t, policy.RequestCanceled, rejection.Result)
	require.Equal(t, context.Canceled, rejection.Lease.Err())
	require.Zero(t, j.queues)
}

// A context may end with an error of its own.
func TestAnErrorOfTheContextsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		for _, maxWait := range []time.Duration{-1, time.Hour} {
			l := taken(t, 1)
			ended, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			p := newPolicy(l)
			p.MaxWait = maxWait
			rejection := under(t, theOptions{}, p).Admit(testkit.OwnError{Context: ended, Own: gone}, "", policy.Wait)
			require.Equal(t, policy.RequestCanceled, rejection.Result)
		}
	})
}

// Limiters of users may return anything. A limiter that fails does not know when to come back, and no time helps one that
// is asked for too much.
func TestCarelessLimiters(t *testing.T) {
	later := core.RetryAfter.With(time.Second)
	odd := errors.New("odd")
	released := 0
	for name, test := range map[string]struct {
		answer  limiterFunc
		want    policy.Result
		wantErr error
	}{
		"no lease and no error": {func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil }, policy.RejectedByPolicy, core.ErrRejected},
		"a lease and an error":  {func(context.Context, int) (core.Lease, error) { return core.Grant(1, func() { released++ }), odd }, policy.Failed, odd},
		"two errors":            {func(context.Context, int) (core.Lease, error) { return core.Reject(), odd }, policy.Failed, odd},
		"a context's error":     {func(context.Context, int) (core.Lease, error) { return core.Lease{}, context.DeadlineExceeded }, policy.Failed, context.DeadlineExceeded},
		"a failure":             {func(context.Context, int) (core.Lease, error) { return core.Fail(odd).With(later), odd }, policy.Failed, odd},
		"more than the limit": {func(context.Context, int) (core.Lease, error) {
			return core.Fail(core.ErrPermitsExceedLimit).With(later), core.ErrPermitsExceedLimit
		}, policy.RejectedByPolicy, core.ErrPermitsExceedLimit},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(test.answer)
			p.MaxWait = time.Hour
			rejection := rejects(t, under(t, theOptions{}, p), "", test.want)
			require.ErrorIs(t, rejection.Err, test.wantErr)
			require.False(t, rejection.Lease.Acquired())
			require.ErrorIs(t, rejection.Lease.Err(), test.wantErr)
			require.Zero(t, rejection.RetryAfter)
		})
	}
	require.Equal(t, 1, released)
}

func TestFailOpen(t *testing.T) {
	for _, set := range []func(*thePolicy){func(p *thePolicy) { p.FailOpen = true }, func(p *thePolicy) { p.Shadow = true }} {
		odd := errors.New("odd")
		var said strings.Builder
		p, j := newPolicy(limiterFunc(func(context.Context, int) (core.Lease, error) { return core.Fail(odd), odd })), new(journal)
		set(p)
		adm := under(t, theOptions{Logger: slog.New(slog.NewTextHandler(&said, nil)), Observer: j}, p)
		admits(t, adm, "")
		require.Equal(t, []policy.Result{policy.Failed}, j.decided)
		require.Contains(t, said.String(), `level=ERROR msg="test: a limiter failed" policy=p error=odd others=0`)
		adm.Undo()
	}
}

// A policy with FailOpen lets requests pass that nothing limits, and never in silence.
func TestFailOpenIsLogged(t *testing.T) {
	for _, failOpen := range []bool{true, false} {
		var said strings.Builder
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
		p := newPolicy(limiterFunc(func(context.Context, int) (core.Lease, error) { return core.Fail(errors.New("odd")), nil }))
		p.FailOpen = failOpen
		under(t, theOptions{}, p).Admit(t.Context(), "", policy.Wait)
		slog.SetDefault(before)
		require.Equal(t, failOpen, strings.Contains(said.String(), "error=odd"), said.String())
	}
}

func TestShadowNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		defer l.TryAcquire(1).Release()
		var said strings.Builder
		p, j, s := newPolicy(l), new(journal), &theSet{Package: "test"}
		p.Shadow, p.MaxWait = true, time.Hour
		o := theOptions{Logger: slog.New(slog.NewTextHandler(&said, nil)), Observer: j}
		for range 3 { // the second and third are not logged, although the options are new
			start, adm := time.Now(), underSet(t, s, o, p)
			admits(t, adm, "")
			require.Zero(t, time.Since(start))
			adm.Release()
		}
		require.Equal(t, []policy.Result{policy.Shadowed, policy.Shadowed, policy.Shadowed}, j.decided)
		require.Equal(t, 1, strings.Count(said.String(), "\n"))
		time.Sleep(time.Second)
		admits(t, underSet(t, s, o, p), "")
		require.Contains(t, said.String(), "would have rejected")
		require.Contains(t, said.String(), "others=2")
	})
}

// counted embeds a limiter of core's and refunds in its own way.
type counted struct {
	*core.TokenBucket

	refunded int
}

func (c *counted) TryAcquire(n int) core.Lease {
	l := c.TokenBucket.TryAcquire(n)
	if !l.Acquired() {
		return l
	}
	return core.GrantFrom(&countedGrant{c, l}, n)
}

type countedGrant struct {
	limiter *counted
	lease   core.Lease
}

func (g *countedGrant) Settle(_, now int) int {
	if now == 0 {
		g.limiter.refunded++
	}
	g.lease = g.lease.Settle(now)
	return g.lease.Permits()
}

// What cost nothing is refunded, by the limiter of the user's that granted it.
func TestEnd(t *testing.T) {
	for name, test := range map[string]struct {
		refund   bool
		cost     int
		left     int // of 5 tokens, of which 2 were taken
		refunded int
	}{
		"refunded":      {true, 1, 5, 1},
		"cheaper":       {false, 1, 4, 0},
		"free":          {false, 0, 5, 1},
		"dearer":        {false, 4, 1, 0},
		"left as it is": {false, -1, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &counted{TokenBucket: bucket(t)}
				p := newPolicy(l)
				p.Cost = func(string) int { return 2 }
				adm := under(t, theOptions{}, p)
				admits(t, adm, "r")
				lease, _ := adm.Lease()
				adm.End(func(any) (bool, int) { return test.refund, test.cost })
				lease.Settle(5) // too late
				require.Equal(t, test.left, l.Available())
				require.Equal(t, test.refunded, l.refunded)
			})
		})
	}
}

// One lease stands for all.
func TestLease(t *testing.T) {
	first, second := concurrency(t, 5), concurrency(t, 5)
	a, b := newPolicy(core.WithReason(first, "")), newPolicy(second)
	b.Name, b.Cost = "b", func(string) int { return 3 }
	j := new(journal)
	adm := under(t, theOptions{Observer: j}, a, b)
	admits(t, adm, "")
	lease, ok := adm.Lease()
	require.True(t, ok)
	require.Equal(t, 3, lease.Permits())
	remaining, _ := core.Remaining.From(lease)
	require.Equal(t, 4, remaining, "the first policy's")
	require.Equal(t, 2, j.active)
	lease.Release()
	require.Equal(t, 5, first.Available())
	require.Equal(t, 5, second.Available())
	require.Zero(t, j.active)
	adm.Release()
	require.Zero(t, j.active, "the Observer is notified once")
}

// callingBack is a limiter of a user's. Its Settle calls back while it settles.
type callingBack struct {
	core.Limiter
	back func()
	held int // permits of leases
	last int // cost of a lease when it was last settled
}

func (l *callingBack) Acquire(context.Context, int) (core.Lease, error) { return l.TryAcquire(1), nil }

func (l *callingBack) TryAcquire(permits int) core.Lease {
	l.held += permits
	return core.GrantFrom(l, permits)
}

func (l *callingBack) Settle(had, now int) int {
	if l.back != nil && now > 1 {
		l.back()
	}
	l.held += now - had
	l.last = now
	return now
}

func (l *callingBack) Release(permits int) { l.held -= permits }

// No lock is held while a lease is settled: the limiter may look at the request's lease, or end the request. The end
// then happens to the lease that replaces this one.
func TestTheLimiterCallsBackWhileItSettles(t *testing.T) {
	for name, end := range map[string]func(*policy.Admission[string, any]){
		"looks":   func(adm *policy.Admission[string, any]) { adm.Lease() },
		"ends":    func(adm *policy.Admission[string, any]) { adm.End(func(any) (bool, int) { return false, 3 }) },
		"refunds": func(adm *policy.Admission[string, any]) { adm.Undo() },
	} {
		t.Run(name, func(t *testing.T) {
			l := new(callingBack)
			adm := under(t, theOptions{}, newPolicy(l))
			l.back = func() { l.back = nil; end(adm) }
			admits(t, adm, "r")
			lease, _ := adm.Lease()
			require.Equal(t, 5, lease.Settle(5).Permits())
			require.Equal(t, map[string]int{"looks": 5, "ends": 3, "refunds": 0}[name], l.last)
			if name == "looks" {
				require.Equal(t, 5, l.held)
				adm.Release()
			}
			require.Zero(t, l.held)
		})
	}
}

// A function that settles may end the same attempt, as one that closes the body does.
func TestAnAttemptThatEndsItself(t *testing.T) {
	l := concurrency(t, 1)
	a := new(policy.Attempt)
	_, err := policy.Start(t.Context(), a, "r", partition.Shared[string](l), nil, new(backoff.Keys[int]), "")
	require.NoError(t, err)
	a.End(func() int {
		a.End(nil)
		return -1
	})
	require.Equal(t, 1, l.Available())
}

// A panic in one end does not keep the others from theirs.
func TestEndContinuesAfterAPanic(t *testing.T) {
	l := concurrency(t, 3)
	policies := []*thePolicy{newPolicy(l), newPolicy(l), newPolicy(l)}
	policies[1].Own = "panics"
	adm := under(t, theOptions{}, policies...)
	admits(t, adm, "")
	require.Zero(t, l.Available())
	require.PanicsWithValue(t, "odd", func() {
		adm.End(func(own any) (bool, int) {
			if own != nil {
				panic("odd")
			}
			return false, -1
		})
	})
	require.Equal(t, 3, l.Available())
}

// journal is an Observer that may panic.
type journal struct {
	panics       string
	decided      []policy.Result
	queues       int          // calls of Queued
	queued       atomic.Int64 // read while a request waits
	active       int
	waited, held time.Duration
}

func (j *journal) is(what string) {
	if j.panics == what {
		panic(what)
	}
}

func (j *journal) Queued(_ context.Context, _ string, delta int) {
	j.queues++
	if delta > 0 {
		j.is("queued") // it does not count what it has panicked at
	}
	j.queued.Add(int64(delta))
	if delta < 0 {
		j.is("dequeued")
	}
}

func (j *journal) Decided(_ context.Context, _ string, r policy.Result, waited time.Duration) {
	j.decided = append(j.decided, r)
	j.waited += waited
	j.is("decided")
}

func (j *journal) Active(_ context.Context, _ string, delta int) {
	j.active += delta
	if delta > 0 {
		j.is("active")
	}
}

func (j *journal) Released(_ context.Context, _ string, held time.Duration) { j.held += held }

func TestObserver(t *testing.T) {
	for _, panics := range []string{"", "queued", "dequeued", "decided", "active"} {
		t.Run(panics, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 1)
				j, held := &journal{panics: panics}, l.TryAcquire(1)
				var waiting int64
				time.AfterFunc(time.Second, func() {
					waiting = j.queued.Load()
					held.Release()
				})
				p := newPolicy(l)
				p.MaxWait = -1
				adm := under(t, theOptions{Observer: j}, p)
				if panics != "" {
					require.PanicsWithValue(t, panics, func() { adm.Admit(t.Context(), "", policy.Wait) })
				} else {
					admits(t, adm, "")
					require.Equal(t, 1, j.active)
					time.Sleep(time.Minute)
				}
				adm.Undo()
				time.Sleep(time.Second)
				synctest.Wait() // for the release of that instant
				require.Equal(t, 1, l.Available())
				require.Zero(t, j.active)
				require.Zero(t, j.queued.Load())
				require.Len(t, j.decided, 1)
				if panics == "" {
					require.Equal(t, []policy.Result{policy.Acquired}, j.decided)
					require.EqualValues(t, 1, waiting)
					require.Equal(t, time.Second, j.waited)
					require.Equal(t, time.Minute, j.held)
				}
			})
		})
	}
}

// Queued is called for each request that may wait and whose permits were not granted immediately.
func TestQueued(t *testing.T) {
	for name, test := range map[string]struct {
		limiter func(t *testing.T) core.Limiter
		maxWait time.Duration
		want    int // calls
	}{
		"granted immediately": {func(*testing.T) core.Limiter { return core.Unlimited() }, -1, 0},
		"no request waits":    {func(t *testing.T) core.Limiter { t.Helper(); return taken(t, 0) }, 0, 0},
		"no room":             {func(t *testing.T) core.Limiter { t.Helper(); return taken(t, 0) }, -1, 2},
		"no quiet try": {func(*testing.T) core.Limiter {
			return limiterFunc(func(context.Context, int) (core.Lease, error) { return core.Grant(1, nil), nil })
		}, -1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p, j := newPolicy(test.limiter(t)), new(journal)
			p.MaxWait = test.maxWait
			adm := under(t, theOptions{Observer: j}, p)
			adm.Admit(t.Context(), "", policy.Wait)
			adm.Undo()
			require.Equal(t, test.want, j.queues)
			require.Zero(t, j.queued.Load())
			require.Len(t, j.decided, 1)
		})
	}
}

// taken is a limiter without permits left.
func taken(t *testing.T, queue int) core.Limiter {
	t.Helper()
	l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: queue}))
	l.TryAcquire(1)
	return l
}

// A limiter that panics is a failure for the Observer, and earlier grants are refunded.
func TestALimiterThatPanics(t *testing.T) {
	for _, wait := range []time.Duration{0, -1} {
		j, l := new(journal), concurrency(t, 1)
		p := newPolicy(limiterFunc(func(context.Context, int) (core.Lease, error) { panic("odd") }))
		p.Name, p.MaxWait = "q", wait
		adm := under(t, theOptions{Observer: j}, newPolicy(l), p)
		require.PanicsWithValue(t, "odd", func() { adm.Admit(t.Context(), "", policy.Wait) })
		require.Empty(t, adm.Decisions)
		require.Equal(t, []policy.Result{policy.Acquired, policy.Failed}, j.decided)
		require.Equal(t, 1, l.Available())
		require.Zero(t, j.active)
		require.Zero(t, j.queued.Load())
	}
}

// A limiter may keep the context: with a bound on the wait, it ends with the call; without one, it is the
// request's own.
func TestTheContext(t *testing.T) {
	for _, maxWait := range []time.Duration{-1, time.Hour} {
		var kept context.Context
		p := newPolicy(limiterFunc(func(ctx context.Context, _ int) (core.Lease, error) {
			kept = ctx //nolint:fatcontext // that is the test
			require.NoError(t, ctx.Err())
			_, has := ctx.Deadline()
			require.Equal(t, maxWait > 0, has)
			return core.Grant(1, nil), nil
		}))
		p.MaxWait = maxWait
		admits(t, under(t, theOptions{}, p), "")
		if maxWait < 0 {
			require.Equal(t, t.Context(), kept)
			continue
		}
		require.ErrorIs(t, kept.Err(), context.Canceled)
	}
}

func TestKey(t *testing.T) {
	require.Empty(t, policy.Key())
	require.Equal(t, "a", policy.Key("a", "b"))
	short, long := strings.Repeat("a", 64), strings.Repeat("a", 65)
	require.Equal(t, short, policy.Key(short))
	require.Equal(t, "sha256:635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0", policy.Key(long))
}

// The phrases of this library's own limiters are not for clients, nor is that of a full partition in other words.
func TestReason(t *testing.T) {
	full := errors.Join(&core.RejectedError{Reason: "no room"}, partition.ErrFull)
	for phrase, want := range map[string]bool{
		"": false, "not today": true, "no room": false,
		core.ReasonExhausted: false, core.ReasonQueueLimit: false, core.ReasonEvicted: false, core.ReasonDeadlineTooSoon: false,
		hold.ReasonCapacity: false, hold.ReasonBusy: false,
	} {
		got, shown := policy.Reason(core.Fail(full).With(core.ReasonPhrase.With(phrase)))
		require.Equal(t, want, shown, phrase)
		if shown {
			require.Equal(t, phrase, got)
		}
	}
}

// Whatever limiter of core rejects a request, its phrase is not shown.
func TestReasonOfCoresLimiters(t *testing.T) {
	for name, l := range map[string]core.Limiter{
		"blocked": core.Blocked(), "paused": core.Paused(), "concurrency": taken(t, 0), "spent": spent(t),
		"chain": core.Must(core.Chain(core.Unlimited(), core.Blocked())), "switch": core.NewSwitch(core.Paused()),
	} {
		phrase, shown := policy.Reason(l.TryAcquire(1))
		require.False(t, shown, "%s: %s", name, phrase)
	}
}

// spent is a bucket without tokens.
func spent(t *testing.T) core.Limiter {
	t.Helper()
	l := bucket(t)
	l.TryAcquire(5)
	return l
}

// An attempt is settled and released once.
func TestAttempt(t *testing.T) {
	l, a, settled := bucket(t), new(policy.Attempt), 0
	_, err := policy.Start[string, int](t.Context(), a, "r", partition.Shared[string](l), func(string) int { return 3 }, nil, "")
	require.NoError(t, err)
	require.True(t, a.Limited())
	for range 2 {
		a.End(func() int { settled++; return 1 })
	}
	require.Equal(t, 1, settled)
	require.Equal(t, 4, l.Available())

	for _, cost := range []int{0, -1} {
		free := new(policy.Attempt)
		_, err = policy.Start[string, int](t.Context(), free, "r", partition.Shared[string](l), func(string) int { return cost }, nil, "")
		require.NoError(t, err)
		require.False(t, free.Limited())
		free.End(func() int { t.Error("it is not limited"); return 1 })
	}
}
