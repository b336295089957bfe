package httplimit_test

import (
	"io"
	"math"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
)

// memory is a listener for connections in memory, as net.Pipe makes them.
type memory chan net.Conn

func (m memory) Accept() (net.Conn, error) {
	if c, ok := <-m; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (m memory) Close() error { close(m); return nil }
func (memory) Addr() net.Addr { return &net.TCPAddr{} }

// A thousand clients whose bodies are throttled, or that wait for a permit, vanish: two seconds later all leases
// are back, and a newcomer is served.
func TestAThousandClientsVanish(t *testing.T) {
	const clients = 1000
	for name, request := range map[string]string{
		"download": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"upload":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nfirst",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// 100 kB/s for all together: each of them would take hours.
				bytes := core.Must(core.NewTokenBucket(core.TokenBucketOptions{
					TokenLimit: 1000, TokensPerPeriod: 1000, ReplenishmentPeriod: 10 * time.Millisecond, QueueLimit: math.MaxInt,
				}))
				held := atOnce(t, clients/2, clients)
				l := limits(t, httplimit.Options{Global: &httplimit.Policy{Limiter: all(held), Upload: all(bytes), Download: all(bytes), MaxWait: -1}})
				s := &http.Server{Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = w.Write(make([]byte, 1<<20))
				}))}
				conns := make(memory)
				go func() { assert.Equal(t, http.ErrServerClosed, s.Serve(conns)) }()
				var there []net.Conn
				for range clients {
					client, server := net.Pipe()
					there = append(there, client)
					conns <- server
					go func() { _, _ = io.Copy(io.Discard, client) }()
					_, err := io.WriteString(client, request)
					require.NoError(t, err)
				}
				time.Sleep(10 * time.Second)
				require.Zero(t, held.Available())
				for _, c := range there {
					require.NoError(t, c.Close())
				}
				time.Sleep(2 * time.Second)
				free(t, held)
				require.NoError(t, s.Close())
				synctest.Wait()
			})
		})
	}
}
