package redislimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// If the server drops any of a limit's keys, the limit starts again: whatever is asked next is done, the whole limit can be taken and
// no more, and what was granted before returns nothing.
func TestLostKeys(t *testing.T) {
	const limit = 10
	keys := map[string][]string{
		"bucket":      {"{key}:limit"},
		"fixed":       {"{key}:limit", "{key}:segments"},
		"sliding":     {"{key}:limit", "{key}:segments"},
		"concurrency": {"{key}:limit", "{key}:leases"},
	}
	for kind, all := range keys {
		for lost := 1; lost < 1<<len(all); lost++ {
			for _, then := range []string{"nothing", "settle", "give back", "reset", "wait"} {
				t.Run(fmt.Sprintf("%s, %b, %s", kind, lost, then), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *server) {
						l := ofKind(t, kind, s.shared("key"), limit)
						earlier := takes(t, l, 3)
						time.Sleep(20 * time.Second)
						later := takes(t, l, 3)
						for i, key := range all {
							if lost&(1<<i) != 0 {
								require.True(t, s.redis.Del(key))
							}
						}
						switch then {
						case "settle":
							earlier.Refund()
							later.Refund()
						case "give back":
							if g, ok := l.(interface{ GiveBack(n int) }); ok {
								g.GiveBack(5)
							}
						case "reset":
							if r, ok := l.(core.Resetter); ok {
								r.Reset()
							}
						case "wait":
							time.Sleep(50 * time.Second) // the first segments are due
						}
						require.Equal(t, limit, l.Available())
						takes(t, l, 4).Release()
						if kind == "concurrency" {
							takes(t, l, 4)
						}
						takes(t, l, limit-4)
						refuses(t, l, 1)
						time.Sleep(10 * time.Minute)
						if kind != "concurrency" {
							require.Equal(t, limit, l.Available())
							require.Empty(t, s.redis.Keys())
						}
					})
				})
			}
		}
	}
}

// The same with waiters, who hold tickets: they are served, a ticket of an earlier state takes nothing from the limit that starts again,
// and later tickets come when their permits do.
func TestLostKeysWithWaiters(t *testing.T) {
	const limit = 10
	keys := map[string][]string{
		"bucket":      {"{key}:limit", "{key}:tickets"},
		"fixed":       {"{key}:limit", "{key}:segments"},
		"sliding":     {"{key}:limit", "{key}:segments"},
		"concurrency": {"{key}:limit", "{key}:leases"},
	}
	for kind, all := range keys {
		for lost := 1; lost < 1<<len(all); lost++ {
			t.Run(fmt.Sprintf("%s, %b", kind, lost), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *server) {
					l, other := ofKind(t, kind, s.shared("key"), limit), ofKind(t, kind, s.shared("key"), limit)
					held := takes(t, l, limit)
					served := make(chan error)
					waits := func(l core.Limiter, permits int) {
						go func() {
							lease, err := l.Acquire(t.Context(), permits)
							lease.Release()
							served <- err
						}()
						synctest.Wait()
					}
					for range 3 {
						waits(l, 2)
						waits(other, 1)
					}
					for i, key := range all {
						if lost&(1<<i) != 0 {
							s.redis.Del(key) // a bucket has no tickets if its waiters ask again
						}
					}
					for range 3 {
						waits(other, 2)
					}
					time.Sleep(time.Second)
					held.Release()
					for range 9 {
						require.NoError(t, <-served)
					}
					time.Sleep(10 * time.Minute)
					for range 2 {
						require.Equal(t, limit, other.Available())
						takes(t, other, limit).Release()
						if kind != "concurrency" {
							refuses(t, l, 1)
						}
						time.Sleep(10 * time.Minute)
					}
					if kind != "concurrency" {
						require.Equal(t, limit, other.Available())
						require.Empty(t, s.redis.Keys())
					}
				})
			})
		}
	}
}
