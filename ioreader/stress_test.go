package ioreader_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// TestStressSharedLimiters has writers and readers of all sizes share a bucket and a
// semaphore, also through a Switch that is set all the time, some of them closed or canceled half way. At the end every
// byte that passed was paid for, in order, and nothing is held.
func TestStressSharedLimiters(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			held := semaphore(t, 1+random.IntN(5000))
			rate := bucketOf(t, 1+random.IntN(5000), 1+random.IntN(10), time.Millisecond)
			chain := core.Must(core.Chain(held, rate))
			changing := core.NewSwitch(chain)
			limiters := []core.Limiter{held, rate, chain, changing}
			setting, stop := context.WithCancel(t.Context())
			go func() {
				for r := rand.New(rand.NewPCG(seed, 8)); setting.Err() == nil; {
					time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
					changing.Set([]core.Limiter{held, rate, chain, nil}[r.IntN(4)])
				}
			}()
			var streams sync.WaitGroup
			for i := range 16 {
				l, end := limiters[i%4], random.IntN(3)
				size, after := 1+random.IntN(3000), time.Duration(1+random.IntN(500))*time.Millisecond
				streams.Go(func() { stressOne(t, l, size, i/4%2 == 0, end, after) })
			}
			streams.Wait()
			stop()
			require.Equal(t, held.Statistics().Limit, held.Available())
			require.Zero(t, held.Statistics().Queued)
			require.Zero(t, rate.Statistics().Queued)
			time.Sleep(time.Hour)
			_, idle := rate.IdleFor()
			require.True(t, idle)
		})
	}
}

// stressOne moves bytes until they have all passed, or the stream is ended.
func stressOne(t *testing.T, l core.Limiter, size int, write bool, end int, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := pattern(3 * size)
	var got bytes.Buffer
	w := ioreader.NewWriter(ctx, &got, l)
	r := ioreader.NewReader(ctx, bytes.NewReader(want), l)
	switch end {
	case 1:
		defer time.AfterFunc(after, cancel).Stop()
	case 2:
		defer time.AfterFunc(after, func() { w.Close(); r.Close() }).Stop()
	}
	passed := 0
	for passed < len(want) {
		var n int
		var err error
		if write {
			n, err = w.Write(want[passed:min(passed+size, len(want))])
		} else {
			p := make([]byte, size)
			n, err = r.Read(p)
			got.Write(p[:n])
		}
		passed += n
		if err != nil {
			break
		}
	}
	if end == 0 && passed != len(want) || !bytes.Equal(want[:passed], got.Bytes()) {
		t.Errorf("%d bytes passed, %d arrived, of %d", passed, got.Len(), len(want))
	}
	w.Close()
	r.Close()
}

// TestStressPermitsAddUp has small and large writers share a bucket whose tokens never
// come back, so the settlements and debts must leave exactly the unused permits.
func TestStressPermitsAddUp(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 11))
			const all = 1 << 20
			l := bucketOf(t, all, all/10, time.Second)
			require.True(t, l.TryAcquire(all).Acquired())
			start := time.Now()
			var passed [8]int
			var streams sync.WaitGroup
			for i := range passed {
				size := 1 << random.IntN(18)
				under := &faulty{random: rand.New(rand.NewPCG(seed, uint64(i)))}
				w := ioreader.NewWriter(t.Context(), under, l)
				streams.Go(func() {
					defer w.Close()
					for time.Since(start) < 3*time.Second {
						n, _ := w.Write(make([]byte, size))
						passed[i] += n
						if n == 0 && under.fails > 10 {
							return
						}
					}
				})
			}
			streams.Wait()
			total := 0
			for _, n := range passed {
				total += n
			}
			// Every period since the bucket was emptied has brought a tenth of all.
			came := int(time.Since(start)/time.Second) * (all / 10)
			require.InDelta(t, came-total, l.Available(), all/10)
			// A stream owes at most a sixteenth of what it has paid when it is closed.
			require.LessOrEqual(t, total, came+came/16)
		})
	}
}

// faulty writes less than it should now and then.
type faulty struct {
	random *rand.Rand
	fails  int
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.random.IntN(10) > 0 {
		return len(p), nil
	}
	f.fails++
	return f.random.IntN(len(p) + 1), io.ErrUnexpectedEOF
}

func TestStressConnsThatEndAtAnyTime(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 13))
			held, rate := semaphore(t, 100), bucketOf(t, 100, 1, time.Millisecond)
			places, h := semaphore(t, 3), newHall()
			l := listen(t, h, ioreader.ListenerOptions{Conns: places, Write: rate, Read: held})
			var all sync.WaitGroup
			for range 10 {
				client := h.dial()
				all.Go(func() { _, _ = io.Copy(io.Discard, client) })
				life := time.Duration(random.IntN(300)) * time.Millisecond
				ending := random.IntN(3)
				all.Go(func() { stressConn(t, l, client, life, ending) })
			}
			all.Wait()
			require.Equal(t, 3, places.Available())
			require.Equal(t, 100, held.Available())
			require.Zero(t, rate.Statistics().Queued)
		})
	}
}

func stressConn(t *testing.T, l net.Listener, client net.Conn, life time.Duration, ending int) {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Errorf("accept: %v", err)
		return
	}
	defer c.Close()
	switch ending {
	case 0:
		_ = c.SetDeadline(time.Now().Add(life))
	case 1:
		defer time.AfterFunc(life, func() { c.Close() }).Stop()
	case 2: // some connection loses its other end, whichever was accepted here
		defer time.AfterFunc(life, func() { client.Close() }).Stop()
		defer time.AfterFunc(time.Second, func() { c.Close() }).Stop()
	}
	read := reading(c, make([]byte, 10))
	for {
		if _, err := c.Write(make([]byte, 70)); err != nil {
			break
		}
	}
	c.Close()
	<-read
	client.Close()
}
