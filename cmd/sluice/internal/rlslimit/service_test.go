package rlslimit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service returns a service with the descriptors of a domain d.
func service(t *testing.T, descriptors string, options ...func(*rlslimit.Options)) *rlslimit.Service {
	t.Helper()
	o := rlslimit.Options{Config: parse(t, "domain: d\ndescriptors:\n"+descriptors)}
	for _, set := range options {
		set(&o)
	}
	s, err := rlslimit.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func parse(t *testing.T, text string) rlslimit.Config {
	t.Helper()
	c, err := rlslimit.Parse("f", []byte(text))
	require.NoError(t, err)
	return c
}

// entries returns a descriptor: "a=1 b=2".
func entries(text string) *envoy.RateLimitDescriptor {
	d := new(envoy.RateLimitDescriptor)
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &envoy.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func hits(n uint64, text string) *envoy.RateLimitDescriptor {
	d := entries(text)
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func back(n uint64, text string) *envoy.RateLimitDescriptor {
	d := hits(n, text)
	d.IsNegativeHits = true
	return d
}

func override(requests uint32, unit types.RateLimitUnit, text string) *envoy.RateLimitDescriptor {
	d := entries(text)
	d.Limit = &envoy.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: unit}
	return d
}

// ask returns the response, as "OK: OK 3/5 left, 20s; OK".
func ask(t *testing.T, s *rlslimit.Service, descriptors ...*envoy.RateLimitDescriptor) string {
	t.Helper()
	return tell(full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: descriptors}))
}

func full(t *testing.T, s *rlslimit.Service, req *ratelimit.RateLimitRequest) *ratelimit.RateLimitResponse {
	t.Helper()
	r, err := s.ShouldRateLimit(t.Context(), req)
	require.NoError(t, err)
	return r
}

func tell(r *ratelimit.RateLimitResponse) string {
	parts := make([]string, len(r.GetStatuses()))
	for i, s := range r.GetStatuses() {
		parts[i] = s.GetCode().String()
		if s.GetLimitRemaining() == 1<<32-1 {
			parts[i] += " unlimited"
		}
		if l := s.GetCurrentLimit(); l != nil {
			parts[i] += fmt.Sprintf(" %d/%d left, %v", s.GetLimitRemaining(), l.GetRequestsPerUnit(), s.GetDurationUntilReset().AsDuration())
		}
	}
	return r.GetOverallCode().String() + ": " + strings.Join(parts, "; ")
}

// bubble runs f in a bubble, whose time starts with a day, on a Saturday.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

const basic = `
- key: key1
  value: value1
  descriptors:
  - {key: subkey1, rate_limit: {unit: second, requests_per_unit: 5}}
  - {key: subkey1, value: subvalue1, rate_limit: {unit: second, requests_per_unit: 10}}
- {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
- {key: key2, value: value2, rate_limit: {unit: minute, requests_per_unit: 30}}
- {key: key2, value: value3}
- {key: key3, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: key4, rate_limit: {name: four, unit: day, requests_per_unit: 1}}
- key: key5
  value: value5
  rate_limit: {unit: day, requests_per_unit: 15}
  descriptors:
  - {key: subkey5, value: subvalue5, rate_limit: {unit: day, requests_per_unit: 25}}
- {key: key6, rate_limit: {unlimited: true}}
- {key: wild, value: foo*, limit: fixed 2/min}
- {key: wild, value: foobar*, limit: fixed 3/min}
- {key: wild, value: a*b*c, limit: fixed 5/min}
- {key: wild, value: "*c", limit: fixed 6/min}
- {key: wild, value: "**end", limit: fixed 7/min}
- {key: wild, value: azc, limit: fixed 8/min}
- {key: wild, value: xy*yz, limit: fixed 9/min}
- {key: wild, limit: fixed 4/min}
- {key: ban, rate_limit: {unit: minute}}
- {key: blocked, limit: blocked}
`

// The exact value decides, then the first wildcard in the order of the file, then the descriptor without a value.
func TestMatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, basic)
		for _, c := range []struct{ entries, want string }{
			{"", "OK: OK"},
			{"key1=something", "OK: OK"},
			{"key1=value1", "OK: OK"},
			{"key2=value2 subkey=subvalue", "OK: OK"},
			{"key5=value5 subkey5=subvalue", "OK: OK"},
			{"key5=value5", "OK: OK 14/15 left, 24h0m0s"},
			{"key5=value5 subkey5=subvalue5", "OK: OK 24/25 left, 24h0m0s"},
			{"key1=value1 subkey1=something", "OK: OK 4/5 left, 1s"},
			{"key1=value1 subkey1=subvalue1", "OK: OK 9/10 left, 1s"},
			{"key2=something", "OK: OK 19/20 left, 1m0s"},
			{"key2=value2", "OK: OK 29/30 left, 1m0s"},
			{"key2=value3", "OK: OK"},
			{"key3=foo", "OK: OK 0/1 left, 1h0m0s"},
			{"key3=foo", "OVER_LIMIT: OVER_LIMIT 0/1 left, 1h0m0s"},
			{"key3=bar", "OK: OK 0/1 left, 1h0m0s"},
			{"key6=foo", "OK: OK unlimited"},
			{"wild=foo", "OK: OK 1/2 left, 1m0s"},
			{"wild=fool", "OK: OK 1/2 left, 1m0s"},
			{"wild=foobar", "OK: OK 1/2 left, 1m0s"},
			{"wild=fo", "OK: OK 3/4 left, 1m0s"},
			{"wild=abc", "OK: OK 4/5 left, 1m0s"},
			{"wild=axbxbxc", "OK: OK 4/5 left, 1m0s"},
			{"wild=ac", "OK: OK 5/6 left, 1m0s"},
			{"wild=azc", "OK: OK 7/8 left, 1m0s"},
			{"wild=c", "OK: OK 5/6 left, 1m0s"},
			{"wild=send", "OK: OK 6/7 left, 1m0s"},
			{"wild=fooc", "OK: OK 1/2 left, 1m0s"},
			{"wild=xyyz", "OK: OK 8/9 left, 1m0s"},
			{"wild=xyz", "OK: OK 3/4 left, 1m0s"}, // the parts of a wildcard do not overlap
			{"ban=x", "OVER_LIMIT: OVER_LIMIT 0/0 left, 1m0s"},
			{"blocked=x", "OVER_LIMIT: OVER_LIMIT 0/0 left, 1s"},
			{"other=x", "OK: OK"},
		} {
			assert.Equal(t, c.want, ask(t, s, entries(c.entries)), c.entries)
		}
		r := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries("key4=x")}})
		assert.Equal(t, "four", r.GetStatuses()[0].GetCurrentLimit().GetName())
		r = full(t, s, &ratelimit.RateLimitRequest{Domain: "other", Descriptors: []*envoy.RateLimitDescriptor{entries("key4=x")}})
		assert.Equal(t, "OK: OK", tell(r))
	})
}

// Windows start with the units of the clock, weeks on Monday, and multiples at the Unix epoch.
func TestWindows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit string
		at    time.Duration // after midnight of Saturday, 1 January 2000
		left  string
	}{
		"second":     {"{unit: second", 250 * time.Millisecond, "1s"},
		"30 seconds": {"{unit: second, unit_multiplier: 30", 31 * time.Second, "29s"},
		"minute":     {"{unit: minute", 61500 * time.Millisecond, "59s"},
		"hour":       {"{unit: hour", 3*time.Hour + 59*time.Minute, "1m0s"},
		"7 hours":    {"{unit: hour, unit_multiplier: 7", 0, "1h0m0s"}, // 262,968 hours since the epoch, 37,566 times 7 and 6
		"day":        {"{unit: day", time.Hour, "23h0m0s"},
		"week":       {"{unit: week", time.Hour, "47h0m0s"},
		"2 days":     {"{unit: day, unit_multiplier: 2", time.Hour, "23h0m0s"},   // 10,957 days since the epoch
		"2 weeks":    {"{unit: week, unit_multiplier: 2", time.Hour, "215h0m0s"}, // 10,953 days since the first Monday
		"month":      {"{unit: month", 24 * time.Hour, "720h0m0s"},
		"February":   {"{unit: month", 31 * 24 * time.Hour, "696h0m0s"}, // of a leap year
		"3 months":   {"{unit: month, unit_multiplier: 3", 0, "2184h0m0s"},
		"year":       {"{unit: year", 0, "8784h0m0s"},
		"5 months":   {"{unit: month, unit_multiplier: 5", 0, "3648h0m0s"}, // 360 months since the epoch
		"7 months":   {"{unit: month, unit_multiplier: 7", 0, "2904h0m0s"}, // 360 months since the epoch, 51 times 7 and 3
		"5 years":    {"{unit: year, unit_multiplier: 5", 0, "43848h0m0s"}, // until 2005
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				time.Sleep(c.at)
				s := service(t, "- {key: k, rate_limit: "+c.limit+", requests_per_unit: 2}}")
				want := "1/2 left, " + c.left
				assert.Equal(t, "OK: OK "+want, ask(t, s, entries("k=v")))
				assert.Equal(t, "OK: OK 2/2 left, "+c.left, ask(t, s, hits(0, "k=w")))
			})
		})
	}
}

// Each window of several months has the length of its months. What was taken stays taken until it ends, also over a reload.
func TestSeveralMonths(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := func(months int) rlslimit.Config {
			return parse(t, fmt.Sprintf("domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: month, unit_multiplier: %d, requests_per_unit: 2}}\n", months))
		}
		s, err := rlslimit.New(rlslimit.Options{Config: config(2)})
		require.NoError(t, err)
		defer func() { _ = s.Close() }()
		sleepUntil := func(m time.Month, short time.Duration) {
			time.Sleep(time.Until(time.Date(2000, m, 1, 0, 0, 0, 0, time.UTC).Add(-short)))
		}
		assert.Equal(t, "OK: OK 0/2 left, 1440h0m0s", ask(t, s, hits(2, "k=v")))
		sleepUntil(time.February, 0)
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/2 left, 696h0m0s", ask(t, s, entries("k=v")))
		sleepUntil(time.March, 1)
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/2 left, 1s", ask(t, s, entries("k=v")))
		sleepUntil(time.March, 0)
		assert.Equal(t, "OK: OK 1/2 left, 1464h0m0s", ask(t, s, entries("k=v")))
		require.NoError(t, s.Update(config(6)))
		assert.Equal(t, "OK: OK 0/2 left, 2928h0m0s", ask(t, s, entries("k=v")))
		sleepUntil(time.July, 1)
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/2 left, 1s", ask(t, s, entries("k=v")))
		sleepUntil(time.July, 0)
		assert.Equal(t, "OK: OK 1/2 left, 4416h0m0s", ask(t, s, entries("k=v")))
		sleepUntil(time.December, 0)
		assert.Equal(t, "OK: OK 0/2 left, 744h0m0s", ask(t, s, entries("k=v")))
	})
}

// A limit of package spec is reported in the largest unit of which its time is a multiple.
func TestSpecLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, `
- {key: sliding, limit: sliding 6/30s}
- {key: bucket, limit: 60/min burst 3}
- {key: fixed, limit: fixed 5/2h}
- {key: days, limit: 5/day}
- {key: odd, limit: 5/1500ms}
- {key: unlimited, limit: unlimited}
- {key: month, limit: fixed 5/month tz Asia/Tokyo}
`)
		for _, c := range []struct {
			key                string
			requests, multiple uint32
			unit               string
			answer             string
		}{
			{"sliding", 6, 30, "SECOND", "OK: OK 5/6 left, 30s"},
			{"bucket", 60, 0, "MINUTE", "OK: OK 2/60 left, 1s"},
			{"fixed", 5, 2, "HOUR", "OK: OK 4/5 left, 2h0m0s"},
			{"days", 5, 0, "DAY", "OK: OK 4/5 left, 4h48m0s"},
			{"odd", 5, 2, "SECOND", "OK: OK 4/5 left, 300ms"},
			{"month", 5, 0, "MONTH", "OK: OK 4/5 left, 735h0m0s"}, // it has started 9 hours ago
		} {
			r := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries(c.key + "=x")}})
			l := r.GetStatuses()[0].GetCurrentLimit()
			assert.Equal(t, c.answer, tell(r))
			assert.Equal(t, c.requests, l.GetRequestsPerUnit(), c.key)
			assert.Equal(t, c.unit, l.GetUnit().String(), c.key)
			assert.Equal(t, c.multiple, l.GetUnitMultiplier().GetValue(), c.key)
		}
		for limit, want := range map[string]string{
			"sliding 5/90m": "5 MINUTE 90", "5/h": "5 HOUR 0", "sliding 5/24h": "5 DAY 0", "sliding 5/168h": "5 WEEK 0",
			"sliding 5/744h": "5 DAY 31", "sliding 5/8784h": "5 DAY 366", "fixed 5/year": "5 YEAR 0",
		} {
			s := service(t, "- {key: a, limit: "+limit+"}")
			l := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries("a=x")}}).GetStatuses()[0].GetCurrentLimit()
			assert.Equal(t, want, fmt.Sprint(l.GetRequestsPerUnit(), l.GetUnit(), l.GetUnitMultiplier().GetValue()), limit)
		}
		assert.Equal(t, "OK: OK unlimited", ask(t, s, entries("unlimited=x")))
		ask(t, s, hits(2, "bucket=x"))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/60 left, 3s", ask(t, s, entries("bucket=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/60 left, 3s", ask(t, s, hits(4, "bucket=x")), "more than the burst")
		time.Sleep(time.Second)
		assert.Equal(t, "OK: OK 0/60 left, 3s", ask(t, s, entries("bucket=x")))
	})
}

const two = `
- {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}
- {key: b, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
`

// A request that one descriptor rejects takes nothing from the others.
func TestAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two)
		both := func() string { return ask(t, s, entries("a=x"), entries("b=x"), entries("none=x")) }
		assert.Equal(t, "OK: OK 9/10 left, 1m0s; OK 1/2 left, 1m0s; OK", both())
		assert.Equal(t, "OK: OK 8/10 left, 1m0s; OK 0/2 left, 1m0s; OK", both())
		for range 3 {
			assert.Equal(t, "OVER_LIMIT: OK 8/10 left, 1m0s; OVER_LIMIT 0/2 left, 1m0s; OK", both())
			assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/2 left, 1m0s; OK 8/10 left, 1m0s", ask(t, s, entries("b=x"), entries("a=x")))
		}
		assert.Equal(t, "OK: OK 7/10 left, 1m0s", ask(t, s, entries("a=x")))
		time.Sleep(time.Minute)
		assert.Equal(t, "OK: OK 9/10 left, 1m0s; OK 1/2 left, 1m0s; OK", both())

		over := ask(t, s, hits(3, "s=x"), hits(3, "q=x"), hits(3, "b=y"))
		assert.Equal(t, "OVER_LIMIT: OK 2/2 left, 1m0s; OK 2/2 left, 1m0s; OVER_LIMIT 0/2 left, 1m0s", over)
		assert.Equal(t, "OK: OK 1/2 left, 1m0s; OK 1/2 left, 1m0s", ask(t, s, entries("s=x"), entries("q=x")))
	})
}

// A request of several hits that is over takes the rest, and one of a single hit nothing.
func TestHits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two)
		assert.Equal(t, "OK: OK 10/10 left, 1m0s", ask(t, s, hits(0, "a=x")), "a look takes nothing")
		assert.Equal(t, "OK: OK 3/10 left, 1m0s", ask(t, s, hits(7, "a=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left, 1m0s", ask(t, s, hits(4, "a=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left, 1m0s", ask(t, s, hits(0, "a=x")), "the gate is closed")
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left, 1m0s", ask(t, s, hits(11, "a=y")), "more than the limit")
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left, 1m0s", ask(t, s, entries("a=y")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/10 left, 1m0s", ask(t, s, hits(1<<63+5, "a=z")))

		r := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: []*envoy.RateLimitDescriptor{entries("a=v"), hits(1, "a=w")}})
		assert.Equal(t, "OK: OK 7/10 left, 1m0s; OK 9/10 left, 1m0s", tell(r))
	})
}

// Hits that are returned never make more than the limit.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"rate_limit: {unit: minute, requests_per_unit: 10}", "limit: 10/min", "limit: sliding 10/min"} {
		t.Run(limit, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := service(t, "- {key: a, "+limit+"}")
				left := func(d *envoy.RateLimitDescriptor) uint32 {
					r := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{d}})
					return r.GetStatuses()[0].GetLimitRemaining()
				}
				assert.EqualValues(t, 10, left(back(5, "a=x")), "it is full")
				assert.EqualValues(t, 1, left(hits(9, "a=x")))
				assert.EqualValues(t, 4, left(back(3, "a=x")))
				assert.EqualValues(t, 0, left(hits(4, "a=x")))
				assert.EqualValues(t, 2, left(back(2, "a=x")), "nothing was left")
				assert.EqualValues(t, 10, left(back(1000, "a=x")))
				assert.EqualValues(t, 9, left(hits(1, "a=x")))
				assert.EqualValues(t, 10, left(back(1, "a=x")))
				assert.EqualValues(t, 0, left(hits(10, "a=x")))
				assert.Equal(t, "OVER_LIMIT", strings.Split(ask(t, s, entries("a=x")), ":")[0])
			})
		})
	}
}

// Hits that are returned to a limit of none are neither over it nor counted.
func TestGiveBackToABan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, "- {key: ban, rate_limit: {unit: minute}}")
		assert.Equal(t, "OK: OK 0/0 left, 1m0s", ask(t, s, back(5, "ban=x")))
		assert.Equal(t, rlslimit.Counts{Returned: 5}, s.Rules()[0].Counts)
	})
}

func TestShadow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two)
		for i := range 5 {
			want := fmt.Sprintf("OK: OK %d/2 left, 1m0s; OK %d/2 left, 1m0s", max(1-i, 0), max(1-i, 0))
			r := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries("s=x"), entries("q=x")}})
			assert.Equal(t, want, tell(r))
			fields := r.GetDynamicMetadata().GetFields()
			assert.True(t, fields["quotaModeEnabled"].GetBoolValue())
			if i < 2 {
				assert.Nil(t, fields["quotaModeViolations"])
			} else {
				assert.InDelta(t, 1, fields["quotaModeViolations"].GetListValue().GetValues()[0].GetNumberValue(), 0)
			}
		}
		for _, r := range s.Rules() {
			if r.Shadow {
				assert.Equal(t, rlslimit.Counts{Granted: 2, Shadowed: 3}, r.Counts, r.Name)
			}
		}
	})
}

// A response has the metadata of the descriptors that pass, merged.
func TestMetadata(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, `
- {key: a, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {quota: {name: a, of: [1, x]}, only: a}}
- {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5}, metadata: {quota: {name: b, b: true}}}
- {key: c, rate_limit: {unit: minute, requests_per_unit: 5}}
`)
		answer := func(keys ...string) map[string]any {
			req := &ratelimit.RateLimitRequest{Domain: "d"}
			for _, key := range keys {
				req.Descriptors = append(req.Descriptors, entries(key))
			}
			return full(t, s, req).GetDynamicMetadata().AsMap()
		}
		assert.Equal(t, map[string]any{
			"quotaModeEnabled": true,
			"metadata":         map[string]any{"quota": map[string]any{"name": "a", "of": []any{1.0, "x"}, "b": true}, "only": "a"},
		}, answer("a=x", "b=x"))
		assert.Equal(t, map[string]any{
			"quotaModeEnabled": true, "metadata": map[string]any{"quota": map[string]any{"name": "b", "b": true}},
		}, answer("a=x", "b=x"), "a is over its limit")
		assert.Empty(t, answer("c=x"))
	})
}

func TestReplaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, `
- {key: all, rate_limit: {name: all, unit: minute, requests_per_unit: 1}}
- {key: vip, rate_limit: {name: vip, unit: minute, requests_per_unit: 5, replaces: [{name: all}]}}
- {key: free, rate_limit: {name: free, unlimited: true, replaces: [{name: all}]}}
- {key: strict, rate_limit: {unit: minute, requests_per_unit: 5, replaces: [{name: free}]}}
`)
		assert.Equal(t, "OK: OK; OK 4/5 left, 1m0s", ask(t, s, entries("all=x"), entries("vip=x")))
		assert.Equal(t, "OK: OK 3/5 left, 1m0s; OK", ask(t, s, entries("vip=x"), entries("all=x")))
		assert.Equal(t, "OK: OK; OK unlimited", ask(t, s, entries("all=x"), entries("free=x")))
		assert.Equal(t, "OK: OK 0/1 left, 1m0s", ask(t, s, entries("all=x")), "nothing was taken")
		assert.Equal(t, "OK: OK unlimited; OK 4/5 left, 1m0s", ask(t, s, entries("free=x"), entries("strict=x")), "no limit cannot be replaced")
	})
}

// leaving is the context of a client that leaves after a number of looks.
type leaving struct {
	context.Context

	looks int
}

func (l *leaving) Err() error {
	l.looks--
	if l.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A request of many descriptors ends when its client disconnects, and then takes nothing.
func TestManyDescriptors(t *testing.T) {
	t.Parallel()
	s := service(t, `
- {key: all, rate_limit: {name: all, unit: week, unit_multiplier: 9, requests_per_unit: 20001}}
- {key: vip, rate_limit: {name: vip, unit: week, unit_multiplier: 9, requests_per_unit: 30000, replaces: [{name: other}, {name: none}]}}
`)
	req := &ratelimit.RateLimitRequest{Domain: "d"}
	for range 10_000 {
		req.Descriptors = append(req.Descriptors, entries("all=x"), entries("vip=x"))
	}
	r := full(t, s, req)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, r.GetOverallCode())
	assert.Equal(t, "OK: OK 10001/20001 left", decided(ask(t, s, hits(0, "all=x"))))
	for _, looks := range []int{0, 1, 12_345, 20_000, 20_001, 20_002, 33_333, 40_001} {
		_, err := s.ShouldRateLimit(&leaving{t.Context(), looks}, req)
		assert.Equal(t, codes.Canceled, status.Code(err))
		assert.Equal(t, "OK: OK 10001/20001 left; OK 20000/30000 left", decided(ask(t, s, hits(0, "all=x"), hits(0, "vip=x"))))
	}
	req.Descriptors = []*envoy.RateLimitDescriptor{hits(20_000, "all=x")} // which takes the rest
	_, err := s.ShouldRateLimit(&leaving{t.Context(), 2}, req)
	assert.Equal(t, codes.Canceled, status.Code(err))
	assert.Equal(t, "OK: OK 10001/20001 left", decided(ask(t, s, hits(0, "all=x"))))
}

// polls counts how often a decision polls its context, which it does after each step of work.
type polls struct {
	context.Context

	n int
}

func (p *polls) Err() error {
	p.n++
	return nil
}

// The work for a request grows with its descriptors, and not faster: each is looked up and asked once, and a rule's list of
// replaced names is read once, however many descriptors have the rule.
func TestTheWorkIsLinear(t *testing.T) {
	t.Parallel()
	s := service(t, `
- {key: all, rate_limit: {name: all, unit: week, unit_multiplier: 9, requests_per_unit: 100000}}
- {key: vip, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 100000, replaces: [{name: a}, {name: b}, {name: c}]}}
- {key: path, value: "/a*", rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 100000}}
- {key: path, value: "*z", rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 100000}}
`)
	for _, n := range []int{1000, 20_000} {
		req := &ratelimit.RateLimitRequest{Domain: "d"}
		for range n / 4 {
			req.Descriptors = append(req.Descriptors, entries("all=x"), entries("vip=x"), entries("path=/xyz"), override(100_000, types.RateLimitUnit_DAY, "own=x"))
		}
		ctx := &polls{Context: t.Context()}
		_, err := s.ShouldRateLimit(ctx, req)
		require.NoError(t, err)
		assert.Equal(t, 2*n+2, ctx.n, "and for the rule that replaces, and at the end")
	}
}

// Limits of any number of requests are exact.
func TestLargeLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, "- {key: a, rate_limit: {unit: minute, requests_per_unit: 4294967295}}\n- {key: b, limit: fixed 3000000000/min}")
		assert.Equal(t, "OK: OK 2294967295/4294967295 left, 1m0s; OK 1000000000/3000000000 left, 1m0s", ask(t, s, hits(2_000_000_000, "a=x"), hits(2_000_000_000, "b=x")))
		assert.Equal(t, "OK: OK 294967295/4294967295 left, 1m0s", ask(t, s, hits(2_000_000_000, "a=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/4294967295 left, 1m0s", ask(t, s, hits(2_000_000_000, "a=x")))
		assert.Equal(t, "OK: OK 2147483648/2147483649 left, 1m0s", ask(t, s, override(1<<31+1, types.RateLimitUnit_MINUTE, "a=x")))
	})
}

// A client cannot choose a value that stands for another one.
func TestLongValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, "- {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}")
		long := strings.Repeat("x", 300)
		sum := sha256.Sum256([]byte(long))
		for _, value := range []string{long, "#" + string(sum[:]), "sha256:" + hex.EncodeToString(sum[:]), "300:" + long, "~5", "!5", ""} {
			d := entries("a=x")
			d.Entries[0].Value = value
			assert.Equal(t, "OK: OK 0/1 left, 1m0s", ask(t, s, d))
			assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/1 left, 1m0s", ask(t, s, d))
		}
	})
}

// A limit that comes with the request decides in place of the rule's.
func TestOverride(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two)
		const minute = types.RateLimitUnit_MINUTE
		assert.Equal(t, "OK: OK 2/3 left, 1m0s", ask(t, s, override(3, minute, "a=x")))
		assert.Equal(t, "OK: OK 1/3 left, 1m0s", ask(t, s, override(3, minute, "a=x")))
		assert.Equal(t, "OK: OK 2/3 left, 1m0s", ask(t, s, override(3, minute, "a=y")), "each value has its own")
		assert.Equal(t, "OK: OK 3/4 left, 1m0s", ask(t, s, override(4, minute, "a=x")), "each limit has its own")
		assert.Equal(t, "OK: OK 0/1 left, 1m0s", ask(t, s, override(1, minute, "none=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/1 left, 1m0s", ask(t, s, override(1, minute, "none=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/0 left, 1m0s", ask(t, s, override(0, minute, "s=x")), "it is not shadowed")
		assert.Equal(t, "OK: OK 9/10 left, 1m0s", ask(t, s, entries("a=x")), "the rule's own limit is as it was")

		d := override(1, minute, "m=x")
		d.Limit.UnitMultiplier = wrapperspb.UInt32(5)
		assert.Equal(t, "OK: OK 0/1 left, 5m0s", ask(t, s, d))
	})
}

func TestShareThreshold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, `
- {key: f, value: files/*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: g, value: files/*, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: u, value: user/*, share_threshold: true, descriptors: [{key: m, rate_limit: {unit: minute, requests_per_unit: 2}}]}
`)
		assert.Equal(t, "OK: OK 1/2 left, 1m0s", ask(t, s, entries("f=files/a")))
		assert.Equal(t, "OK: OK 0/2 left, 1m0s", ask(t, s, entries("f=files/b")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/2 left, 1m0s", ask(t, s, entries("f=files/c")))
		assert.Equal(t, "OK: OK 1/2 left, 1m0s", ask(t, s, entries("g=files/a")))
		assert.Equal(t, "OK: OK 1/2 left, 1m0s", ask(t, s, entries("g=files/b")))
		assert.Equal(t, "OK: OK 1/2 left, 1m0s", ask(t, s, entries("u=user/1 m=get")))
		assert.Equal(t, "OK: OK 0/2 left, 1m0s", ask(t, s, entries("u=user/2 m=get")))
		assert.Equal(t, "OK: OK 1/2 left, 1m0s", ask(t, s, entries("u=user/2 m=put")))
	})
}

func TestInvalid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two)
		for _, c := range []struct {
			req  *ratelimit.RateLimitRequest
			want string
		}{
			{&ratelimit.RateLimitRequest{Descriptors: []*envoy.RateLimitDescriptor{{}}}, "rate limit domain must not be empty"},
			{&ratelimit.RateLimitRequest{Domain: "d"}, "rate limit descriptor list must not be empty"},
			{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{override(1, 0, "a=x")}}, "invalid rate limit unit 'UNKNOWN'"},
			{&ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{override(1, 99, "a=x")}}, "invalid rate limit unit '99'"},
		} {
			_, err := s.ShouldRateLimit(t.Context(), c.req)
			assert.Equal(t, codes.InvalidArgument, status.Code(err))
			assert.Equal(t, c.want, status.Convert(err).Message())
		}
		require.NoError(t, s.Close())
		_, err := s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{{}}})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		_, err = new(rlslimit.Service).ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{{}}})
		assert.Equal(t, codes.Unavailable, status.Code(err))
		require.Error(t, s.Update(rlslimit.Config{}))
		_, err = rlslimit.New(rlslimit.Options{Timeout: -1})
		require.EqualError(t, err, "rlslimit: Options.Timeout = -1ns, want at least 0")
	})
}

func TestHeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two, func(o *rlslimit.Options) { o.Headers = true })
		header := func(descriptors ...*envoy.RateLimitDescriptor) string {
			r := full(t, s, &ratelimit.RateLimitRequest{Domain: "d", Descriptors: descriptors})
			var b strings.Builder
			for _, h := range r.GetResponseHeadersToAdd() {
				fmt.Fprintf(&b, "%s: %s\n", h.GetKey(), h.GetValue())
			}
			return b.String()
		}
		assert.Equal(t, "RateLimit-Limit: 2\nRateLimit-Remaining: 1\nRateLimit-Reset: 60\n", header(entries("a=x"), entries("b=x")))
		assert.Empty(t, header(entries("none=x")))
		header(entries("b=x"))
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, "RateLimit-Limit: 2\nRateLimit-Remaining: 0\nRateLimit-Reset: 60\n", header(entries("a=x"), entries("b=x")))
	})
}

// A change of the rules does not lose counts.
func TestUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, two)
		ask(t, s, hits(2, "b=x"), hits(3, "a=x"))
		require.NoError(t, s.Update(parse(t, "domain: d\ndescriptors:\n- {key: b, rate_limit: {unit: minute, requests_per_unit: 5}}\n- {key: c, limit: fixed 1/min}\n")))
		assert.Equal(t, "OK: OK 2/5 left, 1m0s", ask(t, s, entries("b=x")))
		assert.Equal(t, "OK: OK 4/5 left, 1m0s", ask(t, s, entries("b=y")))
		assert.Equal(t, "OK: OK", ask(t, s, entries("a=x")))
		assert.Equal(t, "OK: OK 0/1 left, 1m0s", ask(t, s, entries("c=x")))
		require.NoError(t, s.Update(parse(t, "domain: d\ndescriptors:\n- {key: b, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 4}}\n")))
		assert.Equal(t, "OK: OK 0/4 left, 1h0m0s", ask(t, s, entries("b=x")))
		assert.Equal(t, "OK: OK 0/4 left, 1h0m0s", ask(t, s, entries("b=x")))
		require.EqualError(t, s.Update(parse(t, "domain: d\nkeys: 5")), `f:1:1: keys of domain "d" was 100000 and is 5: that needs a restart`)
		assert.Equal(t, "OK: OK 0/4 left, 1h0m0s", ask(t, s, entries("b=x")), "a bad change is none")
	})
}

// When Update returns, the new limit decides for all values, also for those that share the limiter of a group and those that are known to
// be over their limit. A limit that no limiter can have changes nothing.
func TestUpdateFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		config := func(limit string) rlslimit.Config {
			return parse(t, "domain: d\nkeys: 2\ndescriptors:\n- {key: k, limit: "+limit+"}\n")
		}
		s, err := rlslimit.New(rlslimit.Options{Config: config("fixed 2/h")})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		values := []string{"k=a", "k=b", "k=c", "k=d"}
		all := func(want string) {
			t.Helper()
			for _, v := range values {
				assert.Equal(t, want, ask(t, s, entries(v)), v)
			}
		}
		all("OK: OK 1/2 left, 1h0m0s")
		all("OK: OK 0/2 left, 1h0m0s")
		all("OVER_LIMIT: OVER_LIMIT 0/2 left, 1h0m0s")
		require.NoError(t, s.Update(config("fixed 4/h")))
		all("OK: OK 1/4 left, 1h0m0s")
		require.NoError(t, s.Update(config("fixed 3/h")))
		all("OVER_LIMIT: OVER_LIMIT 0/3 left, 1h0m0s")
		require.NoError(t, s.Update(config("fixed 9/h")))
		all("OK: OK 5/9 left, 1h0m0s")
		assert.Equal(t, 4, s.Rules()[0].Keys)
	})
}

// Requests come while the limit changes: none is lost, and all hits together are those of the largest limit at most.
func TestStressUpdate(t *testing.T) {
	t.Parallel()
	config := func(limit string) rlslimit.Config {
		return parse(t, "domain: d\nkeys: 2\ndescriptors:\n- {key: k, rate_limit: {unit: year, unit_multiplier: 99, requests_per_unit: "+limit+"}}\n")
	}
	s, err := rlslimit.New(rlslimit.Options{Config: config("10")})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var granted [4]atomic.Int64
	var workers, updates sync.WaitGroup
	stop := make(chan struct{})
	updates.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				assert.NoError(t, s.Update(config([]string{"20", "30", "10"}[i%3])))
			}
		}
	})
	for range 4 {
		workers.Go(func() {
			for i := range 3000 {
				k := i % len(granted)
				r, err := s.ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{
					Domain: "d", Descriptors: []*envoy.RateLimitDescriptor{entries(fmt.Sprintf("k=%d", k))},
				})
				if assert.NoError(t, err) && r.GetOverallCode() == ratelimit.RateLimitResponse_OK {
					granted[k].Add(1)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	updates.Wait()
	for k := range granted {
		n := granted[k].Load()
		assert.LessOrEqual(t, n, int64(30))
		assert.GreaterOrEqual(t, n, int64(10))
	}
}

func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, basic)
		ask(t, s, hits(20, "key2=x"))
		ask(t, s, hits(20, "key2=y"))
		ask(t, s, hits(5, "key1=value1 subkey1=v"))
		n, err := s.Reset(t.Context(), "d/key2", "x")
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.Equal(t, "OK: OK 19/20 left, 1m0s", ask(t, s, entries("key2=x")))
		assert.Equal(t, "OVER_LIMIT: OVER_LIMIT 0/20 left, 1m0s", ask(t, s, entries("key2=y")))
		n, err = s.Reset(t.Context(), "d/key2")
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		assert.Equal(t, "OK: OK 19/20 left, 1m0s", ask(t, s, entries("key2=y")))
		_, err = s.Reset(t.Context(), "d/key1_value1.subkey1", "v")
		require.NoError(t, err)
		assert.Equal(t, "OK: OK 4/5 left, 1s", ask(t, s, entries("key1=value1 subkey1=v")))
		_, err = s.Reset(t.Context(), "d/none")
		require.ErrorIs(t, err, rlslimit.ErrNoRule)
		_, err = s.Reset(t.Context(), "d/key2", "x", "y")
		require.ErrorIs(t, err, rlslimit.ErrNoRule, "it has one value")

		// Of rules that have one name, values reset the one that has as many.
		s = service(t, "- {key: override, limit: 1/day}\n- {key: a.b, limit: 1/day}\n- {key: a, descriptors: [{key: b, limit: 1/day}]}")
		all := map[string][]string{"override=x": {"d/override", "x"}, "a.b=x": {"d/a.b", "x"}, "a=x b=y": {"d/a.b", "x", "y"}}
		for reset, args := range all {
			for d := range all {
				ask(t, s, entries(d))
			}
			n, err := s.Reset(t.Context(), args[0], args[1:]...)
			require.NoError(t, err)
			assert.Equal(t, 1, n)
			for d := range all {
				assert.Equal(t, d != reset, strings.HasPrefix(ask(t, s, entries(d)), "OVER_LIMIT"), d)
			}
		}
	})
}

// Names with values are for those rules that want them.
func TestDetails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := service(t, `
- {key: plain, limit: 1/s}
- {key: detailed, detailed_metric: true, limit: 1/s}
- {key: wild, value: foo*, value_to_metric: true, descriptors: [{key: sub, limit: 1/s}]}
- {key: shared, value: foo*, share_threshold: true, detailed_metric: true, limit: 1/s}
`)
		for _, e := range []string{"plain=a", "detailed=a", "detailed=b", "wild=foo1 sub=x", "wild=foo2 sub=x", "shared=foo1", "shared=foo2"} {
			ask(t, s, entries(e))
		}
		names := map[string][]string{}
		for _, r := range s.Rules() {
			for name := range r.Details {
				names[r.Name] = append(names[r.Name], name)
			}
		}
		assert.Len(t, names, 3)
		assert.ElementsMatch(t, []string{"detailed_a", "detailed_b"}, names["detailed"])
		assert.ElementsMatch(t, []string{"wild_foo1.sub", "wild_foo2.sub"}, names["wild_foo*.sub"])
		assert.ElementsMatch(t, []string{"shared_foo*"}, names["shared_foo*"])
	})
}

// Values beyond keys share the limiters of groups: they are never unlimited.
func TestKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := parse(t, "domain: d\nkeys: 10\ndescriptors:\n- {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}")
		s, err := rlslimit.New(rlslimit.Options{Config: c})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		granted := 0
		for i := range 20_000 {
			if strings.HasPrefix(ask(t, s, entries(fmt.Sprintf("k=%d", i))), "OK") {
				granted++
			}
		}
		assert.Equal(t, 10+3*1024, granted)
		rules := s.Rules()
		assert.Equal(t, 10+1024, rules[0].Keys)
		assert.EqualValues(t, 20_000-10, rules[0].Overflowed)
		overridden := 0
		for i := range 3000 {
			if strings.HasPrefix(ask(t, s, override(uint32(i+1), types.RateLimitUnit_HOUR, "k=x")), "OK") {
				overridden++
			}
		}
		assert.Equal(t, 3000, overridden, "there is room for 65,536 limits, too")
	})
}

// A request that a rule in shadow mode lets through is logged, once a second.
func TestLogger(t *testing.T) {
	var log bytes.Buffer
	s := service(t, `
- {key: a, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: b, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}
`, func(o *rlslimit.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	lines := func(descriptor string) int {
		before := log.Len()
		ask(t, s, entries(descriptor))
		return strings.Count(log.String()[before:], "over the limit, and let through")
	}
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, 1, lines("a=x"))
		assert.Zero(t, lines("a=y"))
		assert.Equal(t, 1, lines("b=x"), "another rule")
		time.Sleep(time.Second - 1)
		assert.Zero(t, lines("a=x"))
		time.Sleep(1)
		assert.Equal(t, 1, lines("a=x"))
	})
}
