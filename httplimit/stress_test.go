package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/partition"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// gauges is an Observer whose counts must come out even.
type gauges struct{ queued, active, decided, granted, released atomic.Int64 }

func (g *gauges) Queued(_ context.Context, _ string, delta int) { g.queued.Add(int64(delta)) }
func (g *gauges) Decided(_ context.Context, _ string, r httplimit.Result, _ time.Duration) {
	g.decided.Add(1)
	if r == httplimit.Acquired {
		g.granted.Add(1)
	}
}

func (g *gauges) Active(_ context.Context, _ string, delta int)         { g.active.Add(int64(delta)) }
func (g *gauges) Released(_ context.Context, _ string, _ time.Duration) { g.released.Add(1) }

// mischief is a handler that does what handlers do at the worst of times.
func mischief(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Query().Get("do") {
	case "panic":
		_, _ = io.WriteString(w, strings.Repeat("x", rand.IntN(2)*5000))
		panic(http.ErrAbortHandler)
	case "hijack":
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
	case "release":
		if l, ok := httplimit.LeaseFromContext(r.Context()); ok {
			l.Release()
		}
	case "wait":
		timer := time.NewTimer(time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	case "read":
		_, _ = io.Copy(w, r.Body)
	case "release elsewhere":
		var wg sync.WaitGroup
		if l, ok := httplimit.LeaseFromContext(r.Context()); ok {
			wg.Go(l.Release)
		}
		defer wg.Wait()
	default:
		_, _ = io.WriteString(w, "ok")
	}
}

var doings = []string{"", "panic", "hijack", "release", "wait", "read", "release elsewhere", "abort", "abort", "cut"}

func TestStressNoLeaseIsLost(t *testing.T) {
	const clients = 16
	requests := 10_000
	if testkit.Race { // which takes ten times as long for each
		requests = 2_000
	}
	global, named := atOnce(t, 8, 6), atOnce(t, 6, 20)
	keyed := core.Must(partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) {
			return core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 7, QueueLimit: 3})
		},
	}))
	g := new(gauges)
	o := httplimit.Options{
		Observer: g,
		Headers:  httplimit.Draft11,
		Skip:     func(r *http.Request) bool { return r.URL.Path == "/skip" },
		Global:   &httplimit.Policy{Limiter: all(global), MaxWait: 20 * time.Millisecond},
		Policies: []httplimit.Policy{
			{Name: "named", Limiter: all(named), MaxWait: 5 * time.Millisecond, Refund: func(*http.Request, int) bool { return rand.IntN(2) == 0 }},
			{Name: "keyed", Limiter: keyed, MaxWait: -1, Download: all(core.Unlimited()), Upload: all(core.Unlimited()), Settle: func(*http.Request, int, http.Header) int {
				return rand.IntN(3) - 1
			}},
		},
	}
	l := limits(t, o)
	mux := http.NewServeMux()
	mux.Handle("/named", l.Policy("named")(http.HandlerFunc(mischief)))
	mux.Handle("/keyed", l.Policy("named", "keyed")(http.HandlerFunc(mischief)))
	mux.Handle("/timed", http.TimeoutHandler(l.Policy("keyed")(http.HandlerFunc(mischief)), time.Millisecond, "late"))
	mux.Handle("/skip", http.HandlerFunc(mischief))
	s := httptest.NewUnstartedServer(l.Handler(mux))
	s.Config.ErrorLog = quiet()
	s.Start()
	defer s.Close()

	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(c)))
			for range requests / clients {
				one(s, random)
			}
		})
	}
	wg.Go(func() { // and the limits change meanwhile
		for range 200 {
			assert.NoError(t, l.Update(o))
		}
	})
	wg.Wait()
	s.Client().CloseIdleConnections()
	s.Close()
	until(t, func() bool { return g.active.Load() == 0 && g.queued.Load() == 0 }) // hijacked connections' handlers may still run
	free(t, global)
	free(t, named)
	for _, k := range keyed.All() {
		free(t, k.(*core.ConcurrencyLimiter))
	}
	require.Equal(t, g.granted.Load(), g.released.Load())
	require.Greater(t, g.decided.Load(), int64(requests)/2)
	t.Logf("%d decisions, %d granted", g.decided.Load(), g.granted.Load())
}

// one makes one request, and may not wait for what comes of it.
func one(s *httptest.Server, random *rand.Rand) {
	do := doings[random.IntN(len(doings))]
	path := []string{"/named", "/keyed", "/timed", "/skip"}[random.IntN(4)]
	if do == "cut" {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(c, "POST %s?do=read HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nonly this", path)
		c.Close()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if do == "abort" {
		do = "wait"
		time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path+"?do="+strings.ReplaceAll(do, " ", "+"), strings.NewReader("body"))
	if err != nil {
		return
	}
	response, err := s.Client().Do(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// A handler may outlive an http.TimeoutHandler inside a wrapper, and settle its lease while the wrapper ends. No permit
// is lost, whichever comes first.
func TestStressSettleDuringTheEnd(t *testing.T) {
	for _, settle := range []func(core.Lease){
		func(l core.Lease) { l.Settle(2) }, core.Lease.Refund, core.Lease.Release,
	} {
		slots, done := atOnce(t, 5, 0), make(chan struct{}, 1)
		h := limits(t, httplimit.Options{Global: &httplimit.Policy{
			Limiter: all(slots), Cost: func(*http.Request) int { return 5 },
		}}).Handler(http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			defer func() { done <- struct{}{} }()
			<-r.Context().Done()
			if lease, ok := httplimit.LeaseFromContext(r.Context()); ok {
				settle(lease)
			}
		}), time.Nanosecond, ""))
		for range 100 {
			require.NotEqual(t, http.StatusTooManyRequests, get(h, "/").Code)
			<-done
			free(t, slots)
		}
	}
}
