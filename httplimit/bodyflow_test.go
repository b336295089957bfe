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
	for name, throttle := range map[string]func(*httplimit.Policy, httplimit.Limiter){
		"download": func(p *httplimit.Policy, l httplimit.Limiter) { p.Download = l },
		"upload":   func(p *httplimit.Policy, l httplimit.Limiter) { p.Upload = l },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := ioreader.PerSecond(100_000)
				o.QueueOrder = core.FairShare
				p := httplimit.Policy{Flow: func(r *http.Request) core.Flow { return core.Flow{Key: r.Header.Get("Client")} }}
				throttle(&p, all(core.Must(core.NewTokenBucket(o))))
				var mu sync.Mutex
				got := make(map[string]int64)
				h := limits(t, httplimit.Options{Global: &p}).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for err := error(nil); err == nil; {
						var n int64
						n, err = io.CopyN(w, r.Body, 1000)
						mu.Lock()
						got[r.Header.Get("Client")] += n
						mu.Unlock()
					}
				}))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var transfers sync.WaitGroup
				for _, client := range []string{"ann", "bob", "bob", "bob"} {
					transfers.Go(func() {
						r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 10<<20)))
						r.Header.Set("Client", client)
						play(h, r)
					})
				}
				transfers.Wait()
				require.InEpsilon(t, got["ann"], got["bob"], 0.1, "%v", got)
			})
		})
	}
}
