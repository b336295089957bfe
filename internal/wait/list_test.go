package wait_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/internal/wait"
)

func TestList(t *testing.T) {
	testkit.Bubble(t, "in order", func(t *testing.T) {
		var mu sync.Mutex
		var l wait.List[int]
		require.True(t, l.Empty())
		require.Nil(t, l.Decide(wait.Granted))
		l.Decide(wait.Granted).Wake() // nil: nothing happens
		var order []int
		for i := range 3 {
			w := l.Push(t.Context().Done(), i)
			go func() {
				value, o := w.Wait(&mu)
				assert.Equal(t, wait.Granted, o)
				order = append(order, value)
			}()
		}
		for range 3 {
			synctest.Wait()
			mu.Lock()
			w := l.Decide(wait.Granted)
			mu.Unlock()
			w.Value *= 10
			w.Wake()
		}
		synctest.Wait()
		require.Equal(t, []int{0, 10, 20}, order)
		require.True(t, l.Empty())
	})
	testkit.Bubble(t, "whose context is done gets nothing", func(t *testing.T) {
		var mu sync.Mutex
		var l wait.List[int]
		ctx, cancel := context.WithCancel(t.Context())
		first, second := l.Push(ctx.Done(), 1), l.Push(nil, 2)
		cancel() // and first has not noticed
		require.Same(t, second, l.Decide(wait.Ended))
		require.Equal(t, wait.Canceled, outcome(first.Wait(&mu)))
		second.Wake()
		require.Equal(t, wait.Ended, outcome(second.Wait(&mu)))
	})
	testkit.Bubble(t, "leaves by itself", func(t *testing.T) {
		var mu sync.Mutex
		var l wait.List[int]
		ctx, cancel := context.WithCancel(t.Context())
		l.Push(nil, 1)
		middle := l.Push(ctx.Done(), 2)
		l.Push(nil, 3)
		cancel()
		require.Equal(t, wait.Canceled, outcome(middle.Wait(&mu)))
		var woken wait.Woken[int]
		l.DecideAll(wait.Ended, &woken)
		require.True(t, l.Empty())
		woken.Wake()
		woken.Wake() // it is empty
	})
	testkit.Bubble(t, "the outcome that was decided under the mutex counts", func(t *testing.T) {
		var mu sync.Mutex
		var l wait.List[int]
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			w := l.Push(ctx.Done(), 1)
			require.Same(t, w, l.Decide(wait.Granted))
			cancel()
			w.Wake()
			require.Equal(t, wait.Granted, outcome(w.Wait(&mu)))
		}
	})
}

// outcome is that of a Wait whose value does not matter.
func outcome[T any](_ T, o wait.Outcome) wait.Outcome { return o }

// Calls wait for tokens that others bring, and are canceled at random: no token is lost or given twice.
func TestStressList(t *testing.T) {
	const workers, rounds = 8, 2000
	var mu sync.Mutex
	var l wait.List[struct{}]
	tokens, granted := 0, 0
	bring := func() {
		var woken wait.Woken[struct{}]
		mu.Lock()
		tokens++
		for tokens > 0 {
			w := l.Decide(wait.Granted)
			if w == nil {
				break
			}
			tokens--
			woken.Add(w)
		}
		mu.Unlock()
		woken.Wake()
	}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				done := ctx.Done()
				if random.IntN(2) == 0 {
					go cancel()
				}
				bring()
				mu.Lock()
				var w *wait.Waiter[struct{}]
				got := tokens > 0
				if got {
					tokens--
				} else {
					w = l.Push(done, struct{}{})
				}
				mu.Unlock()
				if got = got || outcome(w.Wait(&mu)) == wait.Granted; got {
					mu.Lock()
					granted++
					mu.Unlock()
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.True(t, l.Empty())
	require.Equal(t, workers*rounds, granted+tokens)
}
