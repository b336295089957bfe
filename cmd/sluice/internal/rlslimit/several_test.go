package rlslimit_test

import (
	"testing"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
)

const several = `
- {key: a, limit: "fixed 3/min, fixed 5/day tz UTC"}
- {key: b, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: s, shadow_mode: true, limit: "fixed 3/min, fixed 5/day tz UTC"}
- {key: q, quota_mode: true, limit: "fixed 3/min, fixed 1/hour"}
- {key: bucket, limit: "100/min burst 20, fixed 1000/day tz UTC"}
- {key: ban, limit: "100/min, blocked"}
- {key: free, limit: "unlimited, unlimited"}
- {key: one, limit: "unlimited, fixed 5/min"}
`

// A request takes the hits of all limits of a descriptor, or none. The response has the limit that decides.
func TestSeveralLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, several)
		assert.Equal(t, "OK: OK 2/3 left, 1m0s", ask(t, s, entries("a=x")))
		assert.Equal(t, "OK: OK 0/3 left, 1m0s", ask(t, s, hits(2, "a=x")))
		for range 5 { // what the minute rejects, the day does not count
			assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/3 left, 1m0s", ask(t, s, entries("a=x")))
		}
		time.Sleep(time.Minute)
		assert.Equal(t, "OK: OK 2/5 left, 23h59m0s", ask(t, s, hits(0, "a=x")), "the day has less left")
		assert.Equal(t, "OK: OK 1/5 left, 23h59m0s", ask(t, s, entries("a=x")))
		assert.Equal(t, "OK: OK 1/1 left, 1m0s", ask(t, s, hits(0, "b=x")))
		assert.Equal(t, "OVER_LIMIT: OK 1/5 left, 23h59m0s; OVER_LIMIT 0/1 left, 1m0s", ask(t, s, entries("a=x"), hits(2, "b=x")))
		assert.Equal(t, "OK: OK 0/5 left, 23h59m0s", ask(t, s, entries("a=x")))
		for range 5 { // what the day rejects, the minute does not count
			assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/5 left, 23h59m0s", ask(t, s, entries("a=x")))
		}
		assert.Equal(t, "OK: OK 3/3 left, 1m0s", ask(t, s, back(4, "a=x")), "hits return to both")
		time.Sleep(24*time.Hour - time.Minute)
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/3 left, 1m0s", ask(t, s, hits(4, "a=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/3 left, 1m0s", ask(t, s, entries("a=x")), "several hits take what the minute has left")
		time.Sleep(time.Minute)
		assert.Equal(t, "OK: OK 3/3 left, 1m0s", ask(t, s, hits(0, "a=x")), "but not of the day")

		assert.Equal(t, "OK: OK 19/100 left, 600ms", ask(t, s, entries("bucket=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/0 left, 1s", ask(t, s, entries("ban=x")))
		assert.Equal(t, "OK: OK unlimited", ask(t, s, entries("free=x")))
		assert.Equal(t, "OK: OK 4/5 left, 1m0s", ask(t, s, entries("one=x")))
	})
}

// In shadow mode the limits of a descriptor count as they would if it rejected. A descriptor counts once.
func TestSeveralLimitsInShadow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, several)
		ask(t, s, hits(3, "s=x"))
		for range 5 {
			assert.Equal(t, "OK: OK 0/3 left, 1m0s", ask(t, s, entries("s=x")))
		}
		time.Sleep(time.Minute)
		assert.Equal(t, "OK: OK 2/5 left, 23h59m0s", ask(t, s, hits(0, "s=x")))
		req := &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries("a=x"), entries("q=x")}}
		full(t, s, req)
		mode := full(t, s, req).GetDynamicMetadata().GetFields()["quotaModeViolations"].GetListValue().GetValues()
		require.Len(t, mode, 1)
		assert.InDelta(t, 1, mode[0].GetNumberValue(), 0, "the index of the descriptor")

		ask(t, s, hits(9, "a=x"))
		rules := make(map[string]rlslimit.Rule)
		for _, r := range s.Rules() {
			rules[r.Name] = r
		}
		assert.Equal(t, rlslimit.Counts{Granted: 2, Rejected: 9}, rules["a"].Counts)
		assert.Equal(t, rlslimit.Counts{Granted: 3, Shadowed: 5}, rules["s"].Counts)
		assert.Equal(t, "fixed 3/min, fixed 5/day tz UTC", rules["a"].Limit)
		assert.Equal(t, 2, rules["a"].Keys)
		assert.Len(t, rules, 9, "one per descriptor, and the overrides")
		n, err := s.Reset(t.Context(), "d/a", "x")
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Equal(t, "OK: OK 2/3 left, 1m0s", ask(t, s, entries("a=x")))
	})
}

// Limits keep their counts when another joins them, when one leaves, and in another order.
func TestSeveralLimitsChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, "- {key: a, limit: fixed 5/day tz UTC}\n")
		become := func(limits string) {
			t.Helper()
			require.NoError(t, s.Update(parse(t, "domain: d\ndescriptors:\n- {key: a, limit: \""+limits+"\"}\n")))
		}
		assert.Equal(t, "OK: OK 4/5 left, 24h0m0s", ask(t, s, entries("a=x")))
		become("fixed 3/min, fixed 5/day tz UTC")
		assert.Equal(t, "OK: OK 2/3 left, 1m0s", ask(t, s, entries("a=x")))
		become("fixed 8/day tz UTC, fixed 2/min, 100/s")
		assert.Equal(t, "OK: OK 0/2 left, 1m0s", ask(t, s, entries("a=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/2 left, 1m0s", ask(t, s, entries("a=x")))
		become("fixed 8/day tz UTC")
		assert.Equal(t, "OK: OK 4/8 left, 24h0m0s", ask(t, s, entries("a=x")))
		assert.Equal(t, rlslimit.Counts{Granted: 4, Rejected: 1}, s.Rules()[0].Counts)
	})
}

// Processes share each of the limits.
func TestSeveralLimitsAreShared(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	const descriptors = `- {key: a, limit: "fixed 3/week from monday, fixed 5/year"}` + "\n"
	one, other := redis.shared(t, descriptors), redis.shared(t, descriptors)
	assert.Equal(t, "OK: OK 2/3 left", decided(ask(t, one, entries("a=x"))))
	assert.Equal(t, "OK: OK 0/3 left", decided(ask(t, other, hits(2, "a=x"))))
	for range 3 {
		for _, s := range []*rlslimit.Service{one, other} {
			assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/3 left", decided(ask(t, s, entries("a=x"))))
		}
	}
	require.NoError(t, other.Update(parse(t, "domain: d\ndescriptors:\n- {key: a, limit: \"fixed 5/year\"}\n")))
	assert.Equal(t, "OK: OK 2/5 left", decided(ask(t, other, hits(0, "a=x"))), "the year has not counted what the week rejected")
	assert.Equal(t, "OK: OK 0/5 left", decided(ask(t, other, hits(2, "a=x"))))
	require.NoError(t, one.Update(parse(t, "domain: d\ndescriptors:\n- {key: a, limit: \"fixed 100/week from monday, fixed 5/year\"}\n")))
	assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/5 left", decided(ask(t, one, entries("a=x"))))
	assert.Equal(t, "OK: OK 3/5 left", decided(ask(t, one, back(3, "a=x"))))
}
