package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/partition"
)

// The requests of these tests are strings, and their outcomes are numbers.
type (
	thePolicy = policy.Policy[string, int]
	theAsker  = policy.Asker[string, int]
	theAsk    = policy.Ask[string, int]
)

func newAsker() *theAsker {
	return &theAsker{
		Log: new(policy.Log), Package: "test",
	}
}

func newPolicy(l core.Limiter) *thePolicy {
	return &thePolicy{Name: "p", Limiter: partition.Shared[string](l), Rejected: policy.EndpointLimiter}
}

func concurrency(t *testing.T, permits int) *core.ConcurrencyLimiter {
	t.Helper()
	l, err := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: permits, QueueLimit: 10})
	require.NoError(t, err)
	return l
}

// bucket returns a bucket of 5 tokens, one of which comes each second.
func bucket(t *testing.T) *core.TokenBucket {
	t.Helper()
	l, err := core.NewTokenBucket(core.TokenBucketOptions{TokenLimit: 5, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 10})
	require.NoError(t, err)
	return l
}

// limiterFunc is a limiter that answers as it likes.
type limiterFunc func(ctx context.Context, n int) (core.Lease, error)

func (f limiterFunc) TryAcquire(n int) core.Lease { l, _ := f(nil, n); return l }

func (f limiterFunc) Acquire(ctx context.Context, n int) (core.Lease, error) { return f(ctx, n) }
func (limiterFunc) Available() int                                           { return 0 }

func TestAsk(t *testing.T) {
	l := bucket(t)
	asker, p := newAsker(), newPolicy(l)
	p.Permits = func(r string) int { return len(r) }
	var asked []theAsk

	r, passed, err := asker.Ask(t.Context(), "four", p, true, &asked)
	require.Equal(t, policy.Acquired, r)
	require.True(t, passed)
	require.NoError(t, err)
	r, passed, err = asker.Ask(t.Context(), "two", p, true, &asked)
	require.Equal(t, policy.EndpointLimiter, r)
	require.False(t, passed)
	require.ErrorIs(t, err, core.ErrRejected)
	require.Equal(t, 2*time.Second, policy.RetryAfter(asked[1].Lease, err).Round(time.Second))
	r, passed, err = asker.Ask(t.Context(), "sixsix", p, true, &asked)
	require.Equal(t, policy.EndpointLimiter, r)
	require.False(t, passed)
	require.Zero(t, policy.RetryAfter(asked[2].Lease, err))
	require.Len(t, asked, 3)

	_, passed, err = asker.Ask(t.Context(), "", p, true, &asked) // does not apply
	require.True(t, passed)
	require.NoError(t, err)
	require.Len(t, asked, 3)

	policy.End(asked, (*theAsk).Refund)
	require.Equal(t, 5, l.Available())
}

func TestAPolicyWithoutALimiter(t *testing.T) {
	var asked []theAsk
	_, passed, err := newAsker().Ask(t.Context(), "", &thePolicy{}, true, &asked)
	require.True(t, passed)
	require.NoError(t, err)
	require.Len(t, asked, 1)
	policy.End(asked, (*theAsk).Refund)
	policy.End(asked, func(a *theAsk) { a.Settle("", 0, true) })
}

func TestMaxWait(t *testing.T) {
	for name, test := range map[string]struct {
		maxWait, deadline, freed time.Duration
		cancels, wait            bool
		want                     policy.Result
		took                     time.Duration
	}{
		"nobody waits":          {0, 0, 0, false, true, policy.EndpointLimiter, 0},
		"without wait":          {time.Hour, 0, 0, false, false, policy.EndpointLimiter, 0},
		"over":                  {time.Second, time.Minute, 0, false, true, policy.EndpointLimiter, time.Second},
		"granted":               {time.Second, 0, 999 * time.Millisecond, false, true, policy.Acquired, 999 * time.Millisecond},
		"no bound":              {-1, 0, time.Hour, false, true, policy.Acquired, time.Hour},
		"a deadline":            {-1, time.Second, 0, false, true, policy.EndpointLimiter, time.Second},
		"a client's deadline":   {-1, time.Second, 0, true, true, policy.RequestCanceled, time.Second},
		"MaxWait before it":     {time.Second, time.Minute, 0, true, true, policy.EndpointLimiter, time.Second},
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
				asker, p := newAsker(), newPolicy(l)
				asker.DeadlineCancels = test.cancels
				p.MaxWait = test.maxWait
				begun := time.Now()
				var asked []theAsk
				got, passed, err := asker.Ask(ctx, "", p, test.wait, &asked)
				require.Equal(t, test.want, got)
				require.Equal(t, test.want == policy.Acquired, passed)
				require.Equal(t, test.want == policy.Acquired, err == nil)
				require.Equal(t, test.took, time.Since(begun))
				require.Zero(t, l.Statistics().Queued)
				policy.End(asked, (*theAsk).Release)
			})
		})
	}
}

func TestACanceledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		defer l.TryAcquire(1).Release()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		p := newPolicy(l)
		p.MaxWait = time.Minute
		var asked []theAsk
		got, passed, err := newAsker().Ask(ctx, "", p, true, &asked)
		require.Equal(t, policy.RequestCanceled, got)
		require.False(t, passed)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// Limiters of users may return anything.
func TestCarelessLimiters(t *testing.T) {
	odd := errors.New("odd")
	released := 0
	for name, test := range map[string]struct {
		answer  limiterFunc
		want    policy.Result
		wantErr error
	}{
		"no lease and no error": {func(context.Context, int) (core.Lease, error) { return core.Lease{}, nil }, policy.EndpointLimiter, core.ErrRejected},
		"a lease and an error":  {func(context.Context, int) (core.Lease, error) { return core.Grant(1, func() { released++ }), odd }, policy.Failed, odd},
		"two errors":            {func(context.Context, int) (core.Lease, error) { return core.Reject(), odd }, policy.Failed, odd},
		"a context's error":     {func(context.Context, int) (core.Lease, error) { return core.Lease{}, context.DeadlineExceeded }, policy.Failed, context.DeadlineExceeded},
		"a failure":             {func(context.Context, int) (core.Lease, error) { return core.Refuse(odd), odd }, policy.Failed, odd},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(test.answer)
			p.MaxWait = time.Hour
			var asked []theAsk
			got, passed, err := newAsker().Ask(t.Context(), "", p, true, &asked)
			require.Equal(t, test.want, got)
			require.False(t, passed)
			require.ErrorIs(t, err, test.wantErr)
			require.False(t, asked[0].Lease.Acquired())
			require.ErrorIs(t, asked[0].Lease.Err(), test.wantErr)
		})
	}
	require.Equal(t, 1, released)
}

func TestFailOpen(t *testing.T) {
	for _, set := range []func(*thePolicy){func(p *thePolicy) { p.FailOpen = true }, func(p *thePolicy) { p.Shadow = true }} {
		odd := errors.New("odd")
		var said strings.Builder
		asker, p := newAsker(), newPolicy(limiterFunc(func(context.Context, int) (core.Lease, error) { return core.Refuse(odd), odd }))
		asker.Logger = slog.New(slog.NewTextHandler(&said, nil))
		set(p)
		var asked []theAsk
		got, passed, err := asker.Ask(t.Context(), "", p, true, &asked)
		require.Equal(t, policy.Failed, got)
		require.True(t, passed)
		require.ErrorIs(t, err, odd)
		require.Contains(t, said.String(), `level=ERROR msg="test: a limiter failed" policy=p error=odd others=0`)
		policy.End(asked, (*theAsk).Refund)
	}
}

func TestShadowNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := concurrency(t, 1)
		defer l.TryAcquire(1).Release()
		var said strings.Builder
		asker, p := newAsker(), newPolicy(l)
		asker.Logger = slog.New(slog.NewTextHandler(&said, nil))
		p.Shadow, p.MaxWait = true, time.Hour
		var asked []theAsk
		for range 3 { // the second and third are not logged
			begun := time.Now()
			got, passed, _ := asker.Ask(t.Context(), "", p, true, &asked)
			require.Equal(t, policy.Shadowed, got)
			require.True(t, passed)
			require.Zero(t, time.Since(begun))
		}
		require.Equal(t, 1, strings.Count(said.String(), "\n"))
		time.Sleep(time.Second)
		_, _, _ = asker.Ask(t.Context(), "", p, true, &asked)
		require.Contains(t, said.String(), "would have rejected")
		require.Contains(t, said.String(), "others=2")
		policy.End(asked, func(a *theAsk) { a.Settle("", 0, true) })
	})
}

func TestSettle(t *testing.T) {
	for name, test := range map[string]struct {
		refund func(string, int) bool
		settle func(string, int) int
		known  bool
		left   int // of 5 tokens, of which 2 were taken
	}{
		"released":         {nil, nil, true, 3},
		"refunded":         {func(_ string, o int) bool { return o == 7 }, func(string, int) int { panic("not asked") }, true, 5},
		"not refunded":     {func(string, int) bool { return false }, nil, true, 3},
		"unknown":          {func(string, int) bool { return true }, nil, false, 3},
		"cheaper":          {nil, func(r string, o int) int { return len(r) }, true, 4},
		"dearer":           {nil, func(string, int) int { return 4 }, true, 1},
		"left as it is":    {nil, func(string, int) int { return -1 }, true, 3},
		"unknown, settled": {func(string, int) bool { return true }, func(string, int) int { return 1 }, false, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bucket(t)
				p := newPolicy(l)
				p.Permits = func(string) int { return 2 }
				p.Refund, p.Settle = test.refund, test.settle
				var asked []theAsk
				_, passed, err := newAsker().Ask(t.Context(), "r", p, true, &asked)
				require.True(t, passed)
				require.NoError(t, err)
				policy.End(asked, func(a *theAsk) { a.Settle("r", 7, test.known) })
				require.Equal(t, test.left, l.Available())
			})
		})
	}
}

// A panic in one end does not keep the others from theirs.
func TestEndGoesOnAfterAPanic(t *testing.T) {
	l := concurrency(t, 3)
	var asked []theAsk
	for i := range 3 {
		p := newPolicy(l)
		if i == 1 {
			p.Refund = func(string, int) bool { panic("odd") }
		}
		_, _, _ = newAsker().Ask(t.Context(), "", p, true, &asked)
	}
	require.Zero(t, l.Available())
	require.PanicsWithValue(t, "odd", func() { policy.End(asked, func(a *theAsk) { a.Settle("", 0, true) }) })
	require.Equal(t, 3, l.Available())
}

// journal is an Observer that may panic.
type journal struct {
	panics         string
	decided        []policy.Result
	queued, active int
	waited, held   time.Duration
}

func (j *journal) is(what string) {
	if j.panics == what {
		panic(what)
	}
}

func (j *journal) Queued(_ context.Context, _ string, delta int) {
	j.queued += delta
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
	for _, panics := range []string{"", "dequeued", "decided", "active"} {
		t.Run(panics, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := concurrency(t, 1)
				time.AfterFunc(time.Second, l.TryAcquire(1).Release)
				j := &journal{panics: panics}
				asker, p := newAsker(), newPolicy(l)
				asker.Observer, p.MaxWait = j, -1
				var asked []theAsk
				ask := func() { _, _, _ = asker.Ask(t.Context(), "", p, true, &asked) }
				if panics != "" {
					require.PanicsWithValue(t, panics, ask)
				} else {
					ask()
					require.Equal(t, 1, j.active)
					time.Sleep(time.Minute)
				}
				policy.End(asked, (*theAsk).Release)
				require.Equal(t, 1, l.Available())
				require.Zero(t, j.active)
				require.Zero(t, j.queued)
				require.Len(t, j.decided, 1)
				if panics == "" {
					require.Equal(t, []policy.Result{policy.Acquired}, j.decided)
					require.Equal(t, time.Second, j.waited)
					require.Equal(t, time.Minute, j.held)
				}
			})
		})
	}
}

// A limiter that panics is a failure for the Observer, and what was asked before can be ended.
func TestALimiterThatPanics(t *testing.T) {
	j := new(journal)
	l := concurrency(t, 1)
	asker := newAsker()
	asker.Observer = j
	var asked []theAsk
	_, _, _ = asker.Ask(t.Context(), "", newPolicy(l), true, &asked)
	for _, wait := range []time.Duration{0, -1} {
		p := newPolicy(limiterFunc(func(context.Context, int) (core.Lease, error) { panic("odd") }))
		p.MaxWait = wait
		require.PanicsWithValue(t, "odd", func() { _, _, _ = asker.Ask(t.Context(), "", p, true, &asked) })
	}
	policy.End(asked, (*theAsk).Refund)
	require.Equal(t, []policy.Result{policy.Acquired, policy.Failed, policy.Failed}, j.decided)
	require.Equal(t, 1, l.Available())
	require.Zero(t, j.active)
}

// A limiter may keep the context; it ends with the call.
func TestTheContextEnds(t *testing.T) {
	for _, maxWait := range []time.Duration{-1, time.Hour} {
		var kept context.Context
		p := newPolicy(limiterFunc(func(ctx context.Context, _ int) (core.Lease, error) {
			kept = ctx //nolint:fatcontext // that is the test
			require.NoError(t, ctx.Err())
			require.Equal(t, t.Context().Value("key"), ctx.Value("key"))
			_, has := ctx.Deadline()
			require.Equal(t, maxWait > 0, has)
			return core.Grant(1, nil), nil
		}))
		p.MaxWait = maxWait
		var asked []theAsk
		_, passed, _ := newAsker().Ask(t.Context(), "", p, true, &asked)
		require.True(t, passed)
		<-kept.Done()
		require.ErrorIs(t, kept.Err(), context.Canceled)
	}
}

func TestKey(t *testing.T) {
	require.Empty(t, policy.Key(""))
	short, long := strings.Repeat("a", 64), strings.Repeat("a", 65)
	require.Equal(t, short, policy.Key(short))
	require.Equal(t, "sha256:635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0", policy.Key(long))
}
