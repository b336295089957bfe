//go:build unix

package adaptertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// waiters are callers of several processes that wait, with tickets, for the permits of rates that come back soon.
type waiters struct {
	rates   map[string][]*redislimit.Limiter // limiters of each kind, one per process
	granted map[string]*atomic.Int64
	start   time.Time
}

const (
	waitLimit  = 10                     // permits of each rate, in a waitPeriod
	waitPeriod = 100 * time.Millisecond // time in which they come back
	waitMost   = 3                      // permits that a caller waits for
	waitEach   = 2                      // callers of each kind in a process
)

// newWaiters returns waiters in processes with these stores.
func newWaiters(t *testing.T, stores []redislimit.Store) *waiters {
	t.Helper()
	w := &waiters{rates: map[string][]*redislimit.Limiter{}, granted: map[string]*atomic.Int64{}}
	for kind, limit := range map[string]core.Options{
		"bucket":  core.TokenBucketOptions{TokenLimit: waitLimit, TokensPerPeriod: 1, ReplenishmentPeriod: waitPeriod / waitLimit, QueueLimit: 100},
		"fixed":   core.FixedWindowOptions{PermitLimit: waitLimit, Window: waitPeriod, QueueLimit: 100},
		"sliding": core.SlidingWindowOptions{PermitLimit: waitLimit, Window: waitPeriod, SegmentsPerWindow: 5, QueueLimit: 100},
	} {
		w.granted[kind] = new(atomic.Int64)
		for i, s := range stores { // the first prefetches as much as it likes
			w.rates[kind] = append(w.rates[kind], limiter(t, redislimit.Options{Store: s, Key: "wait " + kind, Timeout: time.Second, Prefetch: i}, limit))
		}
	}
	return w
}

// keys returns the names of the keys that the waiters use.
func (*waiters) keys() []string {
	return []string{
		"{wait bucket}:limit", "{wait bucket}:tickets", "{wait fixed}:limit", "{wait fixed}:segments", "{wait sliding}:limit", "{wait sliding}:segments",
	}
}

// run has the callers wait, and sometimes give up, until stop is called. It returns when all who wait then have been served.
func (w *waiters) run(t *testing.T) (stop func()) {
	t.Helper()
	w.start = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for kind, rates := range w.rates {
		for i, l := range rates {
			for caller := range waitEach {
				random := rand.New(rand.NewPCG(uint64(i), uint64(caller)))
				callers.Go(func() {
					for ctx.Err() == nil {
						n := 1 + random.IntN(waitMost)
						within, end := context.WithCancel(t.Context())
						if random.IntN(4) == 0 {
							time.AfterFunc(time.Duration(random.IntN(50))*time.Millisecond, end)
						}
						_, err := l.Acquire(within, n)
						if err == nil {
							w.granted[kind].Add(int64(n))
						} else if within.Err() == nil {
							assert.ErrorIs(t, err, redislimit.ErrStore)
						}
						end()
					}
				})
			}
		}
	}
	return func() {
		t.Helper()
		cancel()
		served := make(chan struct{})
		go func() {
			callers.Wait()
			close(served)
		}()
		require.Eventually(t, func() bool {
			select {
			case <-served:
				return true
			default:
				return false
			}
		}, 12*patient, 10*time.Millisecond, "all who wait are served")
	}
}

// check finds that no more was granted than the limits allow if the server forgot everything a number of times. What callers had tickets for
// is then granted beside what is taken anew. If writes were lost with a server, what has come back with time may have been granted twice.
func (w *waiters) check(t *testing.T, forgot int64, lost bool) {
	t.Helper()
	periods := int64(time.Since(w.start)/waitPeriod) + 2
	if lost {
		periods *= 2
	}
	for kind, n := range w.granted {
		require.Positive(t, n.Load(), kind)
		tickets := int64(len(w.rates[kind]) * waitEach * waitMost)
		require.LessOrEqual(t, n.Load(), waitLimit*periods+forgot*(waitLimit+tickets), kind)
	}
}
