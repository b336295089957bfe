package wait_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/internal/wait"
)

func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var s wait.Signal
		done := make(chan struct{})
		var woken, ended int
		for i := range 4 {
			var end chan struct{} // nil: nothing ends the wait
			if i%2 == 1 {
				end = done
			}
			go func() {
				mu.Lock()
				defer mu.Unlock()
				if s.Wait(&mu, end) {
					woken++
				} else {
					ended++
				}
			}()
		}
		synctest.Wait()
		send := func() {
			mu.Lock()
			s.Send()
			mu.Unlock()
			synctest.Wait()
		}
		send()
		require.Equal(t, 1, woken, "one waiter for each Send")
		close(done)
		synctest.Wait()
		require.Equal(t, 4-woken-ended, 4-1-ended, "nobody else is woken")
		for woken+ended < 4 {
			before := woken
			send()
			require.Equal(t, before+1, woken)
		}
		send() // nobody waits: it is not kept
		mu.Lock()
		for range 20 {
			require.False(t, s.Wait(&mu, done))
		}
		mu.Unlock()
	})
}

// Calls take turns that are handed on by Sends, and some give up: nobody waits for ever.
func TestStressSignal(t *testing.T) {
	const workers, rounds = 8, 2000
	var mu sync.Mutex
	var s wait.Signal
	busy, turns := false, 0
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for k := range rounds {
				var done chan struct{}
				if (i+k)%3 == 0 {
					done = make(chan struct{})
					go close(done)
				}
				mu.Lock()
				mine := true
				for busy && mine {
					mine = s.Wait(&mu, done)
				}
				if mine {
					busy = true
					turns++
					mu.Unlock()
					runtime.Gosched()
					mu.Lock()
					busy = false
					s.Send()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, turns, workers*rounds/2)
}

// The channel is made by the first wait, so what was made outside of a bubble can be used in one.
func TestSignalMadeOutsideOfTheBubble(t *testing.T) {
	var s wait.Signal
	s.Send() // nobody has waited
	testkit.Bubble(t, "first use", func(t *testing.T) {
		var mu sync.Mutex
		woken := false
		go func() {
			mu.Lock()
			defer mu.Unlock()
			woken = s.Wait(&mu, nil)
		}()
		synctest.Wait() // hangs if the wait is not a durable one
		mu.Lock()
		require.False(t, woken)
		s.Send()
		mu.Unlock()
		synctest.Wait()
		require.True(t, woken)
	})
}
