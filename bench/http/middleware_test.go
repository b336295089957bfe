package http

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// perSecond is the rate of each client, which none of them reaches.
const perSecond = 1_000_000_000

// inner is the handler under limits.
var inner = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// middleware is one way to limit each client.
type middleware struct {
	name string
	wrap func(b *testing.B) http.Handler
}

// middlewares are told apart by the peer's address. Their header fields are off where they
// can be.
var middlewares = []middleware{
	{"none", func(*testing.B) http.Handler { return inner }},
	{"sluice", newSluice},
	{"xtime-rate", func(*testing.B) http.Handler { return byHand(inner) }},
	{"httprate", func(*testing.B) http.Handler {
		return httprate.LimitBy(perSecond, time.Second, func(r *http.Request) (string, error) { return host(r), nil },
			httprate.WithResponseHeaders(httprate.ResponseHeaders{}))(inner)
	}},
	{"tollbooth", func(*testing.B) http.Handler {
		l := tollbooth.NewLimiter(perSecond, nil)
		l.SetIPLookups([]string{"RemoteAddr"})
		return tollbooth.LimitHandler(l, inner)
	}},
	{"ulule", func(*testing.B) http.Handler {
		return stdlib.NewMiddleware(limiter.New(memory.NewStore(), limiter.Rate{Period: time.Second, Limit: perSecond})).Handler(inner)
	}},
}

func newSluice(b *testing.B) http.Handler {
	b.Helper()
	byIP, err := partition.New(partition.Options[*http.Request, netip.Prefix]{
		Key: httplimit.ByIP(httplimit.IPOptions{}),
		New: func(netip.Prefix) (core.Limiter, error) {
			return core.NewTokenBucket(core.TokenBucketOptions{
				TokenLimit: perSecond, TokensPerPeriod: perSecond / 1000, ReplenishmentPeriod: time.Millisecond,
			})
		},
		IdleTimeout: time.Hour, // as the rivals keep them
	})
	if err != nil {
		b.Fatal(err)
	}
	l, err := httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: byIP}})
	if err != nil {
		b.Fatal(err)
	}
	return l.Handler(inner)
}

func host(r *http.Request) string {
	h, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return h
}

// byHand is what people write with x/time/rate: a map, a mutex, and nothing ever dropped.
func byHand(next http.Handler) http.Handler {
	var mu sync.Mutex
	clients := make(map[string]*rate.Limiter)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := host(r)
		mu.Lock()
		l := clients[key]
		if l == nil {
			l = rate.NewLimiter(perSecond, perSecond)
			clients[key] = l
		}
		mu.Unlock()
		if !l.Allow() {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writer is a ResponseWriter that costs nothing.
type writer struct {
	header http.Header
	status int
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) WriteHeader(status int)      { w.status = status }
func (w *writer) Write(p []byte) (int, error) { return len(p), nil }

// requests are one for each of n clients, with a context as net/http's server makes it.
func requests(b *testing.B, n int) []*http.Request {
	b.Helper()
	ctx := context.WithValue(b.Context(), http.ServerContextKey, new(http.Server))
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, new(net.TCPAddr))
	ctx, cancel := context.WithCancel(ctx)
	b.Cleanup(cancel)
	all := make([]*http.Request, n)
	for i := range all {
		all[i] = httptest.NewRequestWithContext(ctx, http.MethodGet, "/index.html", nil)
		all[i].RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1234", i>>16, i>>8&255, i&255)
	}
	return all
}

// BenchmarkMiddleware is a granted request: of one client, or of the next of many.
func BenchmarkMiddleware(b *testing.B) {
	for _, n := range sidebyside.Sizes(1, 100_000) {
		rs := requests(b, n)
		sidebyside.Over(b, "keys", []int{n}, func(b *testing.B, _ int) {
			var impls []sidebyside.Impl
			for _, m := range middlewares {
				impls = append(impls, sidebyside.Impl{Name: m.name, Run: func(b *testing.B) {
					h, w := m.wrap(b), &writer{header: make(http.Header)}
					for _, r := range rs { // the clients are known
						h.ServeHTTP(w, r)
					}
					i := 0
					for b.Loop() {
						clear(w.header)
						h.ServeHTTP(w, rs[i])
						i++
						if i == n {
							i = 0
						}
					}
					if w.status != 0 {
						b.Fatal("refused with", w.status)
					}
				}})
			}
			sidebyside.Compare(b, impls...)
		})
	}
}
