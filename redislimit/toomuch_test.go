package redislimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
)

// grantBook records what processes are granted. Its instants are those of a bubble.
type grantBook struct {
	mu     sync.Mutex
	start  time.Time
	grants []granted
	more   []granted // permits that came back otherwise than with time
}

type granted struct {
	at time.Duration
	n  int
}

func (l *grantBook) grant(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants = append(l.grants, granted{time.Since(l.start).Truncate(time.Microsecond), n}) // as the server's clock
}

func (l *grantBook) back(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more = append(l.more, granted{time.Since(l.start), n})
}

// sum returns the permits of entries in an interval, its end included.
func sum(all []granted, from, to time.Duration) (n int) {
	for _, e := range all {
		if from <= e.at && e.at <= to {
			n += e.n
		}
	}
	return n
}

// Processes take, wait, give up, reserve and refund at random, and in some plays settle leases, reset the limit, or change it all
// together: never more is granted than a bucket or a window allows.
func TestProcessesNeverGrantTooMuch(t *testing.T) {
	for _, kind := range []string{"bucket", "large ticks", "fixed", "sliding"} {
		t.Run(kind, func(t *testing.T) {
			for seed := range 8 {
				bubble(t, func(t *testing.T, s *server) { grantNotTooMuch(t, s, kind, uint64(seed)) })
			}
		})
	}
}

func grantNotTooMuch(t *testing.T, s *server, kind string, seed uint64) {
	t.Helper()
	const processes, callers, rounds, most = 3, 3, 40, 5
	start := time.Now()
	terms := func(limit int) core.Options {
		switch kind {
		case "bucket":
			return core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 1, ReplenishmentPeriod: time.Second, QueueLimit: 20}
		case "large ticks":
			return core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: 2, ReplenishmentPeriod: 2 * time.Second, QueueLimit: 20}
		case "fixed":
			return core.FixedWindowOptions{PermitLimit: limit, Window: 5 * time.Second, QueueLimit: 20, Anchor: start}
		}
		return core.SlidingWindowOptions{PermitLimit: limit, Window: 5 * time.Second, SegmentsPerWindow: 5, QueueLimit: 20, Anchor: start}
	}
	book := &grantBook{start: start}
	all := make([]*redislimit.Limiter, processes)
	for p := range all {
		all[p] = core.Must(redislimit.New(terms(most), s.shared("key")))
		t.Cleanup(func() { all[p].Close() })
	}
	// what only some plays do
	other := func(random *rand.Rand, l *redislimit.Limiter, lease core.Lease) {
		switch {
		case random.IntN(4) > 0:
		case seed%4 == 1:
			book.back(lease.Permits())
			lease.Refund()
		case seed%4 == 2 && random.IntN(5) == 0:
			book.back(most)
			assert.NoError(t, l.TryReset())
		case seed%4 == 3 && kind != "large ticks":
			limit := terms(3 + random.IntN(3))
			for _, l := range all {
				assert.NoError(t, l.Apply(limit))
			}
			if kind == "bucket" {
				book.back(2) // growing adds the difference
			}
		}
	}
	var wg sync.WaitGroup
	for p, l := range all {
		for c := range callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(10*p+c)))
				for range rounds {
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
					n := 1 + random.IntN(3)
					if random.IntN(4) == 0 {
						n = 1 + random.IntN(most)
					}
					switch random.IntN(4) {
					case 0:
						if lease := l.TryAcquire(n); lease.Acquired() {
							book.grant(n)
							other(random, l, lease)
						}
					case 1:
						lease := l.Reserve(n)
						d, ok := core.Delay.From(lease)
						switch {
						case !lease.Acquired() || !ok:
						case d == 0:
							book.grant(n)
						default: // others may move it forward, so its instant is not known
							time.Sleep(time.Duration(random.Int64N(int64(d))))
							lease.Refund()
						}
					default:
						ctx, cancel := context.WithCancel(t.Context())
						stop := time.AfterFunc(time.Duration(random.IntN(10_000))*time.Millisecond, cancel)
						lease, err := l.Acquire(ctx, n)
						if err == nil {
							book.grant(n)
							other(random, l, lease)
						} else if !errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrPermitsExceedLimit) {
							assert.ErrorIs(t, err, core.ErrRejected)
						}
						stop.Stop()
						cancel()
					}
				}
			})
		}
	}
	wg.Wait()
	require.NotEmpty(t, book.grants)
	ends := []time.Duration{}
	for _, e := range book.grants {
		ends = append(ends, e.at)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	if kind == "fixed" || kind == "sliding" {
		windows := map[time.Duration]bool{}
		for _, at := range ends {
			for back := range 5 {
				windows[at.Truncate(time.Second)-time.Duration(back)*time.Second] = kind == "sliding"
			}
			windows[at.Truncate(5*time.Second)] = true
		}
		for from, whole := range windows {
			if to := from + 5*time.Second - 1; whole {
				require.LessOrEqual(t, sum(book.grants, from, to), most+sum(book.more, from, to), "%d: from %v to %v", seed, from, to)
			}
		}
		return
	}
	step, period := 1, time.Second
	if kind == "large ticks" {
		step, period = 2, 2*time.Second
	}
	for i, from := range ends {
		for _, to := range ends[i:] {
			come := int((to-from)/period)*step + step - 1
			require.LessOrEqual(t, sum(book.grants, from, to), most+come+sum(book.more, from, to), "%d: from %v to %v", seed, from, to)
		}
	}
}
