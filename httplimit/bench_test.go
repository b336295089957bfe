package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// What a request through one policy costs beyond the handler and the limiter.
func BenchmarkHandler(b *testing.B) {
	r, w := served(b), &bare{}
	for _, c := range []struct {
		name string
		l    httplimit.Limiter
	}{{"shared", all(core.Unlimited())}, {"ip", byIP(b)}} {
		l := core.Must(httplimit.New(httplimit.Options{Global: &httplimit.Policy{Limiter: c.l}}))
		run := func(name string, h http.Handler) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					h.ServeHTTP(w, r)
				}
			})
		}
		mux := http.NewServeMux()
		mux.Handle("/index.html", nothing)
		run("bare", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lease, err := c.l.Acquire(r.Context(), r, 1)
			if err != nil {
				return
			}
			defer lease.Release()
			nothing.ServeHTTP(w, r)
		}))
		run("bound", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lease, err := partition.For(c.l, r).Acquire(r.Context(), 1)
			if err != nil {
				return
			}
			defer lease.Release()
			nothing.ServeHTTP(w, r)
		}))
		run("limited", l.Handler(nothing))
		run("mux", mux)
		run("limited mux", l.Handler(mux))
	}
}
