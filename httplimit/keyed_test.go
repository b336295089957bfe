package httplimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Waiting, its end and what is observed of it are the same through a Keyed and through chains.
func TestWaitingForAKey(t *testing.T) {
	for _, name := range []string{"keyed", "chain", "core chain"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := atOnce(t, 1, 1)
				keyed, err := partition.New(partition.Options[*http.Request, string]{
					Key: httplimit.ByHost,
					New: func(string) (core.Limiter, error) { return one, nil },
				})
				require.NoError(t, err)
				limiter := httplimit.Limiter(keyed)
				switch name {
				case "chain":
					limiter, err = partition.Chain(all(core.Unlimited()), limiter)
				case "core chain":
					var c *core.ChainedLimiter
					c, err = core.Chain(core.Unlimited(), one)
					limiter = all(c)
				}
				require.NoError(t, err)
				j := new(journal)
				h := limits(t, httplimit.Options{
					Global: &httplimit.Policy{Limiter: limiter, MaxWait: 300 * time.Millisecond}, Observer: j,
				}).Handler(slow)
				go get(h, "/")
				synctest.Wait()
				start := time.Now()
				require.Equal(t, http.StatusTooManyRequests, get(h, "/").Code)
				require.Equal(t, 300*time.Millisecond, time.Since(start))
				require.Equal(t, "active global +1; acquired global 0s; queued global +1; queued global -1; global_limiter global 300ms", j.read())
				time.Sleep(time.Second)
				synctest.Wait()
				free(t, one)
			})
		})
	}
}
