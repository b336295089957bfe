package rlslimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
	"github.com/sluice-go/sluice/redislimit"
)

// counted is a store that counts its calls.
type counted struct {
	redislimit.Store

	calls atomic.Int64
}

func (c *counted) Run(ctx context.Context, script *redislimit.Script, keys []string, args ...int64) ([]int64, error) {
	c.calls.Add(1)
	return c.Store.Run(ctx, script, keys, args...)
}

// A client that is known to be over its limit costs the store nothing, and takes nothing from the limits that it shares with others.
func TestRejectionsAskNothing(t *testing.T) {
	t.Parallel()
	store := &counted{Store: startRedis(t).client(t)}
	s := service(t, `
- {key: all, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 100000}}
- {key: client, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 3}}
`, func(o *rlslimit.Options) { o.Store, o.Timeout = store, 10*time.Second })
	both := []*envoy.RateLimitDescriptor{entries("all=x"), entries("client=ann")}
	for range 3 {
		assert.Contains(t, ask(t, s, both...), "OK: ")
	}
	assert.Contains(t, ask(t, s, both...), "OVER_LIMIT: OK ")
	before := store.calls.Load()
	for range 1000 {
		assert.Equal(t, "OVER_LIMIT: OK 99997/100000 left; OVER_LIMIT 0/3 left", decided(ask(t, s, both...)))
	}
	assert.LessOrEqual(t, store.calls.Load()-before, int64(20), "prefetched permits may be returned meanwhile")
	assert.Contains(t, ask(t, s, entries("all=x"), entries("client=bob")), "OK: ", "another client")
}

// A request takes the hits of all its descriptors or of none, in whatever order they stand. Limits that were used up are asked again
// when they may have permits.
func TestUsedUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, "- {key: all, rate_limit: {unit: day, requests_per_unit: 9}}\n- {key: client, limit: fixed 1/1m}\n- {key: shadow, shadow_mode: true, limit: fixed 1/1m}\n")
		for _, order := range [][]string{{"all=x", "client=a", "shadow=a"}, {"shadow=a", "client=a", "all=x"}} {
			var d []*envoy.RateLimitDescriptor
			for _, text := range order {
				d = append(d, entries(text))
			}
			before := ask(t, s, hits(0, "all=x"))
			assert.Contains(t, ask(t, s, d...), "OK: ")
			for range 5 {
				assert.Contains(t, ask(t, s, d...), "OVER_LIMIT: ")
			}
			assert.NotEqual(t, before, ask(t, s, hits(0, "all=x")))
			time.Sleep(time.Minute)
		}
		assert.Contains(t, ask(t, s, hits(0, "all=x")), "OK: OK 7/9 left")
		assert.Contains(t, ask(t, s, entries("shadow=a")), "OK: OK 0/1 left")
		assert.Contains(t, ask(t, s, entries("all=x"), entries("shadow=a")), "OK: OK 6/9 left", "a rule in shadow mode spares nobody")
		n, err := s.Reset(t.Context(), "d/client")
		assert.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

// A request of very many descriptors is decided whole, and shuts the store for nobody.
func TestManyDescriptorsOnAStore(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	s := service(t, "- {key: a, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 10}}\n", func(o *rlslimit.Options) {
		o.Store, o.Timeout = server.client(t), time.Hour // a busy machine may take long under the race detector
	})
	req := &ratelimit.RateLimitRequest{Domain: "d"}
	for i := range 10_000 {
		req.Descriptors = append(req.Descriptors, entries(fmt.Sprintf("a=%d", i)))
	}
	for i := range 2 {
		r := full(t, s, req)
		assert.Equal(t, ratelimit.RateLimitResponse_OK, r.GetOverallCode())
		for _, status := range r.GetStatuses() {
			assert.EqualValues(t, 9-i, status.GetLimitRemaining())
		}
	}
	assert.Zero(t, s.Rules()[0].Undecided)
}

// A descriptor that no rule matches passes. It is counted, and logged once a minute with its keys, and without its values.
func TestUnmatchedIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		s := service(t, "- {key: user, descriptors: [{key: path, limit: 5/s}]}\n", func(o *rlslimit.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		assert.Contains(t, ask(t, s, entries("user=ann path=/")), "OK: OK 4/5 left")
		assert.Empty(t, log.String())
		for range 3 {
			assert.Equal(t, "OK: OK", ask(t, s, entries("user_id=secret path=/")))
		}
		assert.Equal(t, "OK: OK", ask(t, s, entries("user=ann")))
		assert.Equal(t, 1, strings.Count(log.String(), "\n"))
		assert.Contains(t, log.String(), `no rule of domain \"d\" matches a descriptor with the keys \"user_id\", \"path\"; it passes`)
		assert.NotContains(t, log.String(), "secret")
		time.Sleep(time.Minute)
		ask(t, s, entries(strings.Repeat("k", 10_000)+"=1"))
		assert.Equal(t, 2, strings.Count(log.String(), "\n"))
		assert.Contains(t, log.String(), "similar=3")
		assert.Less(t, log.Len(), 1000)
		log.Reset()
		for range 3 { // a domain that no file has is logged once in 10 s, and not with the whole of a long name
			full(t, s, &ratelimit.RateLimitRequest{Domain: strings.Repeat("shop\n", 1000), Descriptors: []*envoy.RateLimitDescriptor{entries("a=b"), entries("c=d")}})
		}
		assert.Equal(t, 1, strings.Count(log.String(), "no file has the domain"), log.String())
		assert.Contains(t, log.String(), "its requests pass")
		assert.Less(t, log.Len(), 1000)
		assert.Equal(t, map[string]uint64{"d": 5, "": 6}, s.Unmatched())
		assert.NoError(t, s.Update(parse(t, "domain: d\ndescriptors: [{key: user, limit: 1/s}]\n")))
		assert.Equal(t, map[string]uint64{"d": 5, "": 6}, s.Unmatched(), "counts stay")
	})
}

// Names with values take bounded memory: a long value is replaced by its hash, and names that are not used any more make room.
func TestDetailsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := parse(t, "domain: d\nkeys: 3\ndescriptors: [{key: user, detailed_metric: true, limit: 100/s}]\n")
		s := service(t, "- {key: x, limit: 1/s}\n", func(o *rlslimit.Options) { o.Config = c })
		long := strings.Repeat("x", 4000)
		for _, user := range []string{long, "a", "b", "c", "a"} {
			ask(t, s, entries("user="+user))
		}
		rule := func() rlslimit.Rule { return s.Rules()[0] }
		assert.Len(t, rule().Details, 3)
		for name := range rule().Details {
			assert.Less(t, len(name), 100)
		}
		assert.EqualValues(t, 2, rule().Details["user_a"].Granted)
		assert.EqualValues(t, 1, rule().Granted, "c found no room")
		time.Sleep(time.Hour - time.Second) // in an hour, two things would be due at one instant
		ask(t, s, entries("user=a"))
		time.Sleep(2 * time.Second)
		ask(t, s, entries("user=c"))
		assert.Len(t, rule().Details, 2)
		assert.EqualValues(t, 3, rule().Details["user_a"].Granted)
		assert.EqualValues(t, 1, rule().Details["user_c"].Granted)
		assert.EqualValues(t, 3, rule().Granted, "with those of the names that went")

		// They go although there is room, and although no requests come.
		time.Sleep(time.Hour)
		assert.Empty(t, rule().Details)
		assert.EqualValues(t, 7, rule().Granted)
	})
}
