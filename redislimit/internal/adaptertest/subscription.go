//go:build unix

package adaptertest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// proxy forwards connections to a server. When it is told to, the connections that are subscribed hang.
type proxy struct {
	addr          string
	silent        chan struct{} // closed when subscribed connections hang; those made later do not
	subscriptions atomic.Int64

	mu    sync.Mutex
	conns []net.Conn
	tasks sync.WaitGroup
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), silent: make(chan struct{})}
	t.Cleanup(p.tasks.Wait)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			c.Close()
		}
	})
	p.tasks.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			var subscribed atomic.Bool
			p.tasks.Go(func() { p.carry(server, client, &subscribed) })
			p.tasks.Go(func() { p.carry(client, server, &subscribed) })
		}
	})
	return p
}

func (p *proxy) carry(to, from net.Conn, subscribed *atomic.Bool) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		hangs := false
		select {
		case <-p.silent:
			hangs = true
		default:
		}
		if hangs && subscribed.Load() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if bytes.Contains(bytes.ToUpper(buffer[:n]), []byte("SUBSCRIBE")) {
			p.subscriptions.Add(1)
			subscribed.Store(!hangs)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// A process whose subscription ends, or whose subscribed connection hangs, subscribes again, and is not starved by another one
// that always has waiters.
func testALostSubscription(t *testing.T, connect Connect) {
	t.Helper()
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *realserver.Server, p *proxy){
		"killed": func(t *testing.T, s *realserver.Server, _ *proxy) {
			c := s.Client()
			defer c.Close()
			require.NoError(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		},
		"restarted": func(_ *testing.T, s *realserver.Server, _ *proxy) { s.Restart() },
		"hanging":   func(_ *testing.T, _ *realserver.Server, p *proxy) { close(p.silent) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onPrograms(t, func(t *testing.T, program string) {
				t.Helper()
				s := realserver.Start(t, program)
				p := startProxy(t, s.Addr)
				hanging := func(p *proxy) redislimit.Store { return connect(t, Servers{Addrs: []string{p.addr}, Hanging: true}) }
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				near := hammer(ctx, t, hanging(startProxy(t, s.Addr)))
				far := hammer(ctx, t, hanging(p))
				eventually := func(what string, is func() bool) {
					t.Helper()
					require.Eventually(t, is, time.Minute, 10*time.Millisecond, what)
				}
				eventually("both are served", func() bool { return near.Load() > 10 && far.Load() > 10 && p.subscriptions.Load() > 0 })
				before := p.subscriptions.Load()
				lose(t, s, p)
				eventually("it subscribes again", func() bool { return p.subscriptions.Load() > before })
				const grants = 100
				start := [2]int64{near.Load(), far.Load()}
				eventually("it is served as well as the other", func() bool { // without a subscription it polls once a second
					now := [2]int64{near.Load(), far.Load()}
					if now[0]-start[0] < grants {
						return false
					}
					served := now[1]-start[1] > grants/10
					start = now
					return served
				})
			})
		})
	}
}

// hammer starts callers that always want one of the two permits, and counts their grants. There are so many that the queue is never
// empty: otherwise the subscription would end with it.
func hammer(ctx context.Context, t *testing.T, store redislimit.Store) *atomic.Int64 {
	t.Helper()
	o := redislimit.Options{Store: store, Key: "key", Timeout: time.Second}
	l := limiter(t, o, core.ConcurrencyLimiterOptions{PermitLimit: 2, QueueLimit: 20})
	var grants atomic.Int64
	var callers sync.WaitGroup
	t.Cleanup(callers.Wait)
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(ctx, 1)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				grants.Add(1)
				time.Sleep(20 * time.Millisecond)
				lease.Release()
				time.Sleep(time.Millisecond)
			}
		})
	}
	return &grants
}
