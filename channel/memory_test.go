package channel_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/sluice-go/sluice/channel"

	"github.com/stretchr/testify/require"
)

func TestPinsNoItem(t *testing.T) {
	for name, c := range map[string]*channel.LimitedChannel[*[64]byte]{
		"received": open(t, channel.Options[*[64]byte]{Limiter: permits(t, 3)}),
		"evicted":  open(t, channel.Options[*[64]byte]{Limiter: refusing(t, 3), Overflow: channel.DropNewest}),
	} {
		t.Run(name, func(t *testing.T) {
			gone := sendsOne(t, c)
			if name == "received" {
				c.TryReceive()
			} else {
				for range 3 {
					require.NoError(t, c.TrySend(nil))
				}
			}
			runtime.GC()
			if name == "received" {
				require.Nil(t, gone.Value())
			}
			require.NoError(t, c.Close())
			c.Discard()
			runtime.GC()
			require.Nil(t, gone.Value())
			runtime.KeepAlive(c)
		})
	}
}

// TestPinsNoItemThatWaited: what a call has waited with is for the next call that waits.
func TestPinsNoItemThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, channel.Options[*[64]byte]{Limiter: permits(t, 1)})
		receive := start(func() (*[64]byte, error) { return c.Receive(t.Context()) })
		handed := sendsOne(t, c)
		receive.ends(t, nil)
		receive.result = nil

		require.NoError(t, c.TrySend(nil))
		var waited weak.Pointer[[64]byte]
		send := start(func() (struct{}, error) {
			v := new([64]byte)
			waited = weak.Make(v)
			return struct{}{}, c.Send(t.Context(), v)
		})
		for range 2 {
			_, ok := c.TryReceive()
			require.True(t, ok)
			synctest.Wait()
		}
		send.ends(t, nil)
		runtime.GC()
		require.Nil(t, handed.Value())
		require.Nil(t, waited.Value())
		runtime.KeepAlive(c)
	})
}

// sendsOne sends an item that nothing else refers to.
func sendsOne(t *testing.T, c *channel.LimitedChannel[*[64]byte]) weak.Pointer[[64]byte] {
	t.Helper()
	v := new([64]byte)
	require.NoError(t, c.TrySend(v))
	return weak.Make(v)
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestMemoryOfABurstComesBack(t *testing.T) {
	const burst = 1 << 18
	c := bounded(t, burst)
	before := heap()
	for i := range burst {
		require.NoError(t, c.TrySend(i))
	}
	require.Greater(t, heap()-before, 2*burst)
	for i := range burst {
		v, _ := c.TryReceive()
		if v != i {
			t.Fatalf("got %d, want %d", v, i)
		}
	}
	require.Less(t, heap()-before, 1<<16)
	runtime.KeepAlive(c)
}
