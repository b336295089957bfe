package wait_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/internal/wait"
)

var errClosed = errors.New("closed")

var errOwn = errors.New("own")

// parents are callers' contexts that end with an error of each kind.
var parents = map[string]struct {
	err  error
	make func() (ctx context.Context, end func())
}{
	"canceled": {context.Canceled, func() (context.Context, func()) {
		ctx, cancel := context.WithCancel(context.Background())
		return ctx, cancel
	}},
	"canceled with a cause": {context.Canceled, func() (context.Context, func()) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return ctx, func() { cancel(errOwn) }
	}},
	"deadline": {context.DeadlineExceeded, func() (context.Context, func()) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		return ctx, func() { time.Sleep(2 * time.Second); cancel() }
	}},
	"custom": {errOwn, func() (context.Context, func()) {
		ctx := testkit.NewContext()
		return ctx, func() { ctx.End(errOwn) }
	}},
	"custom, wrapping": {errWrapped, func() (context.Context, func()) {
		ctx := testkit.NewContext()
		return ctx, func() { ctx.End(errWrapped) }
	}},
}

var errWrapped = errors.Join(errOwn, context.Canceled)

// A call ends with the caller's own error, unchanged, or with the source's cause. If both have ended, in whatever
// order, even before the call starts, the caller's own error is told.
func TestHowACallEnds(t *testing.T) {
	for name, p := range parents {
		for _, ends := range []string{"caller", "source", "source, caller", "caller, source", "source, call, caller"} {
			testkit.Bubble(t, name+"/"+ends, func(t *testing.T) {
				var s wait.Source
				parent, end := p.make()
				before, after, early := strings.Cut(ends, ", call, ")
				want := p.err
				run := func(ends string) {
					for who := range strings.SplitSeq(ends, ", ") {
						if who == "caller" {
							end()
							continue
						}
						require.True(t, s.End(errClosed))
						require.False(t, s.End(errOwn), "only the first decides")
						require.Equal(t, errClosed, s.Cause())
					}
				}
				if early {
					run(before)
					before = after
				}
				c := s.Begin(parent)
				if early {
					require.Equal(t, errClosed, c.Explain(c.Err()))
				} else {
					require.NoError(t, c.Err())
					require.NoError(t, c.Ended())
				}
				run(before)
				<-c.Done()
				if ends == "source" {
					want = errClosed
					require.Equal(t, context.Canceled, c.Err())
					require.Equal(t, errClosed, context.Cause(c.Context))
				}
				require.Equal(t, want, c.Ended())
				require.Equal(t, want, c.Explain(c.Err()))
				require.Equal(t, want, c.Explain(context.Canceled))
				c.End()
				require.Equal(t, want, c.Ended(), "after End too")
				again := s.Begin(parent)
				defer again.End()
				synctest.Wait()
				require.Error(t, again.Err())
				require.Equal(t, want, again.Ended())
				if ends == "source" {
					end() // frees what its context has
				}
			})
		}
	}
}

// An error that is not a context's is the limiter's own, whatever else has ended; and so is
// a context's error that neither side explains.
func TestExplainLeavesOtherErrors(t *testing.T) {
	var s wait.Source
	ctx, cancel := context.WithCancel(t.Context())
	c := s.Begin(ctx)
	require.NoError(t, c.Explain(nil))
	require.Equal(t, context.Canceled, c.Explain(context.Canceled))
	require.Equal(t, context.DeadlineExceeded, c.Explain(context.DeadlineExceeded))
	require.Equal(t, errWrapped, c.Explain(errWrapped))
	cancel()
	s.End(errClosed)
	require.Equal(t, errOwn, c.Explain(errOwn))
	require.Equal(t, context.Canceled, c.Explain(context.DeadlineExceeded))
	require.Equal(t, context.Canceled, c.Explain(errWrapped))
	c.End()
	c.End() // again
}

// A call that has ended leaves the source, wherever it stands among the others.
func TestEndedCallsLeave(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s wait.Source
		var calls []*wait.Call
		for range random.IntN(8) {
			calls = append(calls, s.Begin(t.Context()))
		}
		random.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		gone := random.IntN(len(calls) + 1)
		for _, c := range calls[:gone] {
			c.End()
		}
		s.End(errClosed)
		for i, c := range calls {
			want := errClosed
			if i < gone {
				want = context.Canceled
			}
			require.Equal(t, want, context.Cause(c))
			c.End()
		}
	}
}

// What runs when a call's context ends may use the source.
func TestEndRunsOthersCodeWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s wait.Source
		first, second := s.Begin(t.Context()), s.Begin(t.Context())
		var ran atomic.Int64
		for _, c := range []*wait.Call{first, second} {
			context.AfterFunc(c, func() {
				ran.Add(1)
				s.Begin(t.Context()).End()
				assert.Equal(t, errClosed, s.Cause())
			})
		}
		s.End(errClosed)
		synctest.Wait()
		require.EqualValues(t, 2, ran.Load())
		first.End()
		second.End()
	})
}

// A nil source never ends, and its calls end with their caller's context.
func TestNilSource(t *testing.T) {
	var none *wait.Source
	ctx, cancel := context.WithCancel(t.Context())
	c := none.Begin(ctx)
	defer c.End()
	require.NoError(t, none.Cause())
	require.NoError(t, c.Ended())
	cancel()
	<-c.Done()
	require.Equal(t, context.Canceled, c.Explain(c.Err()))
	require.Equal(t, context.Canceled, none.Ended(ctx))
}

// panics is a context whose contexts end with a panic, because its AfterFunc is user code.
type panics struct{ *testkit.Context }

func (panics) AfterFunc(func()) func() bool { return func() bool { panic("stop") } }

// TestAContextThatPanics does not keep the other calls of its source.
func TestAContextThatPanics(t *testing.T) {
	var s wait.Source
	var calls []*wait.Call
	for range 3 {
		calls = append(calls, s.Begin(t.Context()), s.Begin(panics{testkit.NewContext()}))
	}
	require.PanicsWithValue(t, "stop", func() { s.End(errClosed) })
	for _, c := range calls {
		require.Equal(t, errClosed, c.Ended())
		require.Equal(t, context.Canceled, c.Context.Err())
	}
	require.False(t, s.End(errOwn))
}

// TestACallJoinsAgain is ended once, and stands in nobody's way.
func TestACallJoinsAgain(t *testing.T) {
	var s wait.Source
	c, other := s.New(t.Context()), s.New(t.Context())
	require.NoError(t, c.Join())
	require.NoError(t, other.Join())
	require.NoError(t, c.Join())
	c.Leave()
	over := errors.New("over")
	s.End(over)
	require.Equal(t, over, context.Cause(other))
	require.NoError(t, c.Err(), "it has left")
	require.Equal(t, over, c.Join())
	c.End()
	other.End()
}
