package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/ioreader"
)

// Flow counts for Download and Upload: a client with three transfers gets as many bytes as one with a single transfer.
func TestFlowOfBodies(t *testing.T) {
	for name, transfer := range map[string]func(l *httplimit.Limits, client string, count func(int)){
		"download": func(l *httplimit.Limits, client string, count func(int)) {
			h := l.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for {
					n, err := w.Write(make([]byte, 1000))
					count(n)
					if err != nil {
						return
					}
				}
			}))
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			serveUntilLate(h, r, client)
		},
		"upload": func(l *httplimit.Limits, client string, count func(int)) {
			h := l.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				for {
					n, err := io.ReadFull(r.Body, make([]byte, 1000))
					count(n)
					if err != nil {
						return
					}
				}
			}))
			r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(strings.NewReader(strings.Repeat("x", 10<<20)), 10<<20))
			serveUntilLate(h, r, client)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := ioreader.PerSecond(100_000)
				o.QueueOrder = core.FairShare
				bucket := core.Must(core.NewTokenBucket(o))
				p := httplimit.Policy{Flow: func(r *http.Request) core.Flow { return core.Flow{Key: r.Header.Get("Client")} }}
				if name == "download" {
					p.Download = httplimit.Shared(bucket)
				} else {
					p.Upload = httplimit.Shared(bucket)
				}
				l := core.Must(httplimit.New(httplimit.Options{Global: &p}))
				var mu sync.Mutex
				got := make(map[string]int)
				var all sync.WaitGroup
				for _, client := range []string{"ann", "bob", "bob", "bob"} {
					all.Go(func() {
						transfer(l, client, func(n int) {
							mu.Lock()
							defer mu.Unlock()
							got[client] += n
						})
					})
				}
				all.Wait()
				require.InEpsilon(t, got["ann"], got["bob"], 0.1, "%v", got)
			})
		})
	}
}

// serveUntilLate serves a request of the client for 10 s.
func serveUntilLate(h http.Handler, r *http.Request, client string) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	r = r.WithContext(ctx)
	r.Header.Set("Client", client)
	h.ServeHTTP(httptest.NewRecorder(), r)
}
