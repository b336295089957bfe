package sluice_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/channel"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/pipe"
	"github.com/sluice-go/sluice/worker"
)

// asking is something that asks a limiter of 10 permits for n of them, and can be closed.
type asking struct {
	wait  func(ctx context.Context, n int) error
	try   func(n int) error // nil: there is none
	close func() error
}

func acquires(l core.Limiter) func(ctx context.Context, n int) error {
	return func(ctx context.Context, n int) error {
		lease, err := l.Acquire(ctx, n)
		lease.Release()
		return err
	}
}

func tries(l core.Limiter) func(n int) error {
	return func(n int) error {
		lease := l.TryAcquire(n)
		lease.Release()
		return lease.Err()
	}
}

func nothing(context.Context) error { return nil }

// round is an http.RoundTripper whose requests succeed.
type round struct{}

func (round) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// requests is a call of a Transport of the request's cost.
func requests(t *httplimit.Transport) func(ctx context.Context, n int) error {
	return func(ctx context.Context, n int) error {
		r, err := http.NewRequestWithContext(context.WithValue(ctx, costKey{}, n), http.MethodGet, "http://localhost", nil)
		if err != nil {
			return err
		}
		response, err := t.RoundTrip(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
}

type costKey struct{}

func cost(r *http.Request) int { n, _ := r.Context().Value(costKey{}).(int); return n }

// packages are the packages that ask a limiter, each over the given one. Those whose name ends with "stream" take n bytes:
// they split what is more than the limit, cannot be asked for a negative number, and end with io.ErrClosedPipe, as
// io.Pipe does.
func packages(t *testing.T) map[string]func(l core.Limiter) asking {
	t.Helper()
	sends := func(mode channel.Overflow) func(l core.Limiter) asking {
		return func(l core.Limiter) asking {
			c := core.Must(channel.New(channel.Options[int]{
				Limiter: l, Cost: func(n int) int { return n }, Overflow: mode, Capacity: 1,
			}))
			return asking{c.Send, c.TrySend, c.Close}
		}
	}
	submits := func(queue int) func(l core.Limiter) asking {
		return func(l core.Limiter) asking {
			p := core.Must(worker.New(worker.Options{Limiter: l, Queue: queue}))
			return asking{
				func(ctx context.Context, n int) error { return p.SubmitN(ctx, n, nothing) },
				func(n int) error { return p.TrySubmitN(n, nothing) },
				func() error { return p.Close(t.Context()) },
			}
		}
	}
	return map[string]func(l core.Limiter) asking{
		"chain": func(l core.Limiter) asking {
			c := core.Must(core.Chain(core.Unlimited(), l))
			return asking{acquires(c), tries(c), c.Close}
		},
		"switch": func(l core.Limiter) asking {
			s := core.NewSwitch(l)
			return asking{acquires(s), tries(s), s.Close}
		},
		"view": func(l core.Limiter) asking {
			v := core.WithReason(l, "busy")
			return asking{acquires(v), tries(v), l.(io.Closer).Close}
		},
		"key": func(l core.Limiter) asking {
			keyed := core.Must(partition.NewByKey(func(string) (core.Limiter, error) { return l, nil }))
			key := partition.For(keyed, "a")
			return asking{acquires(key), tries(key), keyed.Close}
		},
		"channel":       sends(channel.Wait),
		"drop-oldest":   sends(channel.DropOldest),
		"drop-newest":   sends(channel.DropNewest),
		"drop-incoming": sends(channel.DropIncoming),
		"batch": func(l core.Limiter) asking {
			c := core.Must(channel.New(channel.Options[int]{Limiter: l, Cost: func(n int) int { return n }}))
			send := func(ctx context.Context, n int) error {
				_, err := c.SendBatch(ctx, []int{n})
				return err
			}
			return asking{send, nil, c.Close}
		},
		"pool":            submits(0),
		"pool with queue": submits(1),
		"group": func(l core.Limiter) asking {
			p := core.Must(worker.New(worker.Options{Limiter: l}))
			runs := func(ctx context.Context, n int) error {
				g := p.Group(ctx)
				g.GoN(n, nothing)
				return g.Wait()
			}
			return asking{runs, nil, func() error { return p.Close(t.Context()) }}
		},
		"transport": func(l core.Limiter) asking {
			sends := core.Must(httplimit.NewTransport(httplimit.TransportOptions{
				Base: round{}, Limiter: httplimit.Shared(l), Cost: cost,
			}))
			return asking{requests(sends), nil, l.(io.Closer).Close}
		},
		"pipe stream": func(l core.Limiter) asking {
			reader, writer, err := pipe.New(pipe.Options{WriteLimiter: l})
			require.NoError(t, err)
			t.Cleanup(func() { _ = reader.Close() })
			write := func(ctx context.Context, n int) error {
				_, err := writer.WriteContext(ctx, make([]byte, n))
				return err
			}
			return asking{write, nil, writer.Close}
		},
		"ioreader stream": func(l core.Limiter) asking {
			write := func(ctx context.Context, n int) error {
				_, err := ioreader.NewWriter(ctx, io.Discard, l).Write(make([]byte, n))
				return err
			}
			return asking{write, nil, nil}
		},
	}
}

// TestOrderOfChecks checks that whatever asks a limiter reports negative permits first, then a done
// context, then that it is closed, then more than the limit; and that all of them match the same errors.
func TestOrderOfChecks(t *testing.T) {
	limiter := func(o core.Options) core.Limiter { return core.Must(core.New(o)) }
	held := core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 10}
	rows := map[string]asking{}
	for name, asks := range packages(t) {
		rows[name] = asks(limiter(held))
	}
	for name, o := range map[string]core.Options{
		"concurrency limiter": held,
		"token bucket": core.TokenBucketOptions{
			TokenLimit: 10, TokensPerPeriod: 10, ReplenishmentPeriod: time.Second, QueueLimit: 10,
		},
		"fixed window":   core.FixedWindowOptions{PermitLimit: 10, Window: time.Second, QueueLimit: 10},
		"sliding window": core.SlidingWindowOptions{PermitLimit: 10, Window: time.Second, SegmentsPerWindow: 2, QueueLimit: 10},
	} {
		l := limiter(o)
		rows[name] = asking{acquires(l), tries(l), l.(io.Closer).Close}
	}
	for name, a := range rows {
		t.Run(name, func(t *testing.T) {
			done, cancel := context.WithCancel(t.Context())
			cancel()
			streams := strings.HasSuffix(name, "stream")
			for _, closed := range []bool{false, true} {
				above, ended := core.ErrPermitsExceedLimit, core.ErrClosed
				switch {
				case !closed:
				case a.close == nil:
					return
				case streams:
					ended = io.ErrClosedPipe
					fallthrough
				default:
					require.NoError(t, a.close())
					above = ended
				}
				require.Equal(t, context.Canceled, a.wait(done, 1))
				require.Equal(t, context.Canceled, a.wait(done, 11))
				if closed {
					require.ErrorIs(t, a.wait(t.Context(), 1), ended)
				}
				if streams {
					continue
				}
				require.ErrorIs(t, a.wait(t.Context(), 11), above)
				if name != "transport" { // whose cost below 0 is none
					require.ErrorIs(t, a.wait(done, -1), core.ErrNegativePermits)
				}
				if a.try != nil {
					require.ErrorIs(t, a.try(-1), core.ErrNegativePermits)
					require.ErrorIs(t, a.try(11), above)
				}
			}
		})
	}
}

// TestAClosedLimiter checks that the limiter's end is told as such by whatever asks it.
func TestAClosedLimiter(t *testing.T) {
	for name, asks := range packages(t) {
		l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10, QueueLimit: 10}))
		a := asks(l)
		require.NoError(t, l.Close())
		if name == "pool with queue" {
			continue // it accepts the task, whose error is the pool's to tell
		}
		require.ErrorIs(t, a.wait(t.Context(), 1), core.ErrClosed, name)
		if a.try != nil {
			require.ErrorIs(t, a.try(1), core.ErrClosed, name)
		}
	}
}

// TestZeroValues checks that what has a constructor is closed without it, and neither panics nor hangs.
func TestZeroValues(t *testing.T) {
	ctx := t.Context()
	taken := func(taken bool) error {
		require.False(t, taken)
		return core.ErrClosed
	}
	second := func(_ any, err error) error { return err }
	limits := map[string]core.Limiter{
		"concurrency limiter": new(core.ConcurrencyLimiter), "token bucket": new(core.TokenBucket),
		"fixed window": new(core.FixedWindow), "sliding window": new(core.SlidingWindow),
		"chain": new(core.ChainedLimiter), "switch": new(core.Switch),
	}
	for name, l := range limits {
		for _, n := range []int{0, 1, 1000} {
			require.ErrorIs(t, acquires(l)(ctx, n), core.ErrClosed, name)
			require.ErrorIs(t, tries(l)(n), core.ErrClosed, name)
			_, ok := core.TryQuietly(l, n)
			require.False(t, ok, name)
		}
		require.Zero(t, l.Available(), name)
	}
	var (
		items  channel.LimitedChannel[int]
		pool   worker.Pool
		group  worker.Group
		keyed  partition.Keyed[string, string]
		reads  pipe.Reader
		writes pipe.Writer
		from   ioreader.Reader
		to     ioreader.Writer
		sends  httplimit.Transport
		serves httplimit.Limits
		slots  core.Semaphore
	)
	for name, err := range map[string]error{
		"Send":      items.Send(ctx, 1),
		"TrySend":   items.TrySend(1),
		"Receive":   second(items.Receive(ctx)),
		"SendBatch": second(items.SendBatch(ctx, []int{1})),
		"wait":      items.WaitToSend(ctx),
		"Submit":    pool.Submit(ctx, nothing),
		"TrySubmit": pool.TrySubmit(nothing),
		"Do":        second(worker.Do(ctx, &pool, func(context.Context) (int, error) { return 0, nil })),
		"Go":        taken(group.Go(nothing)),
		"Wait":      group.Wait(),
		"Keyed":     second(keyed.Acquire(ctx, "a", 1)),
		"TryKeyed":  keyed.TryAcquire("a", 1).Err(),
		"Read":      second(reads.Read(make([]byte, 1))),
		"Write":     second(writes.Write(make([]byte, 1))),
		"Reader":    second(from.Read(make([]byte, 1))),
		"Writer":    second(to.Write(make([]byte, 1))),
		"Transport": requests(&sends)(ctx, 1),
		"Semaphore": slots.Acquire(ctx, 1),
	} {
		require.ErrorIs(t, err, core.ErrClosed, name)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost", nil)
	require.NoError(t, err)
	_, rejected := serves.Check(r)
	require.ErrorIs(t, rejected.Err, core.ErrClosed)
	require.NoError(t, items.Close())
	require.NoError(t, pool.Close(ctx))
	require.NoError(t, keyed.Close())
}
