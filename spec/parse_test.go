package spec_test

import (
	"encoding/json"
	"flag"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// bucket is a Limit of so many permits; none is one of more than an int holds, on machines of 32 bits.
func bucket(permits int64, per time.Duration) spec.Limit {
	if permits > math.MaxInt {
		return none
	}
	return spec.Limit{Kind: spec.TokenBucket, Permits: int(permits), Per: per}
}

// bytes is bucket for an amount that was written with a B.
func bytes(permits int64, per time.Duration) spec.Limit {
	l := bucket(permits, per)
	l.Bytes = l != none
	return l
}

var none = spec.Limit{Permits: -1}

const (
	day  = 24 * time.Hour
	kibi = 1 << 10
)

func TestParse(t *testing.T) {
	for s, want := range map[string]spec.Limit{
		// The documentation's.
		"100/s":                            bucket(100, time.Second),
		"bucket 5000/h burst 100 queue 20": {Kind: spec.TokenBucket, Permits: 5000, Per: time.Hour, Burst: 100, Queue: 20},
		"8MiB/s burst 1MiB":                {Kind: spec.TokenBucket, Permits: 8 * kibi * kibi, Per: time.Second, Burst: kibi * kibi, Bytes: true},
		"fixed 1000/1h":                    {Kind: spec.FixedWindow, Permits: 1000, Per: time.Hour},
		"sliding 100/1m segments 6":        {Kind: spec.SlidingWindow, Permits: 100, Per: time.Minute, Segments: 6},
		"sliding 1/10ns":                   {Kind: spec.SlidingWindow, Permits: 1, Per: 10},
		"concurrency 10 queue 5 newest-first": {
			Kind: spec.Concurrency, Permits: 10, Queue: 5, Order: core.NewestFirst,
		},
		"unlimited": {},
		"blocked":   {Kind: spec.Blocked},
		"Paused":    {Kind: spec.Paused},

		// Units of numbers.
		"1k/s": bucket(1e3, time.Second), "1kB/s": bytes(1e3, time.Second), "1K/s": bucket(1e3, time.Second),
		"1MB/s": bytes(1e6, time.Second), "1M/s": bucket(1e6, time.Second), "8m/s": bucket(8e6, time.Second),
		"1GB/s": bytes(1e9, time.Second), "1g/s": bucket(1e9, time.Second), "1TB/s": bytes(1e12, time.Second),
		"1Ki/s": bucket(kibi, time.Second), "1kib/s": bytes(kibi, time.Second), "1KiB/s": bytes(kibi, time.Second),
		"1Mi/s": bucket(1<<20, time.Second), "1Gi/s": bucket(1<<30, time.Second), "1TiB/s": bytes(1<<40, time.Second),
		"7B/s": bytes(7, time.Second), "7b/s": bytes(7, time.Second),
		"1_000/s": bucket(1000, time.Second), "1_0_0kB/s": bytes(100e3, time.Second), "007/s": bucket(7, time.Second),
		"9223372036854775807/s":      bucket(math.MaxInt64, time.Second),
		"concurrency 1k":             {Kind: spec.Concurrency, Permits: 1000},
		"1/s queue 1MiB":             {Kind: spec.TokenBucket, Permits: 1, Per: time.Second, Queue: 1 << 20},
		"1/s queue 0":                bucket(1, time.Second),
		"sliding 9/s segments 1_0":   {Kind: spec.SlidingWindow, Permits: 9, Per: time.Second, Segments: 10},
		"bucket 1/s\tburst\n2\r\n  ": {Kind: spec.TokenBucket, Permits: 1, Per: time.Second, Burst: 2},

		// Times.
		"1/ns": bucket(1, 1), "1/nanosecond": bucket(1, 1), "1/5nanoseconds": bucket(1, 5),
		"1/us": bucket(1, time.Microsecond), "1/µs": bucket(1, time.Microsecond), "1/microseconds": bucket(1, time.Microsecond),
		"1/ms": bucket(1, time.Millisecond), "1/millisecond": bucket(1, time.Millisecond),
		"1/second": bucket(1, time.Second), "1/seconds": bucket(1, time.Second), "1/sec": bucket(1, time.Second),
		"8/m": bucket(8, time.Minute), "1/min": bucket(1, time.Minute), "1/minute": bucket(1, time.Minute),
		"1/minutes": bucket(1, time.Minute), "1/5min": bucket(1, 5*time.Minute),
		"1/h": bucket(1, time.Hour), "1/hour": bucket(1, time.Hour), "1/hours": bucket(1, time.Hour),
		"1/d": bucket(1, day), "1/day": bucket(1, day), "1/days": bucket(1, day), "1/7days": bucket(1, 7*day), "1/2d": bucket(1, 2*day),
		"1/30s": bucket(1, 30*time.Second), "1/1.5s": bucket(1, 1500*time.Millisecond), "1/1h30m": bucket(1, 90*time.Minute),
		"1/250ms": bucket(1, 250*time.Millisecond), "1/.5s": bucket(1, 500*time.Millisecond), "1/2µs": bucket(1, 2*time.Microsecond),
		"fixed 1/day": {Kind: spec.FixedWindow, Permits: 1, Per: day},

		// Case, and any order.
		"BUCKET 1/S BURST 2 QUEUE 3 NEWEST-FIRST": {Kind: spec.TokenBucket, Permits: 1, Per: time.Second, Burst: 2, Queue: 3, Order: core.NewestFirst},
		"1/s newest-first queue 3 burst 2":        {Kind: spec.TokenBucket, Permits: 1, Per: time.Second, Burst: 2, Queue: 3, Order: core.NewestFirst},
		"1/s oldest-first":                        bucket(1, time.Second),
		"Unlimited":                               {},
		"fixed 1/1H30M queue 1":                   {Kind: spec.FixedWindow, Permits: 1, Per: 90 * time.Minute, Queue: 1},
	} {
		t.Run(s, func(t *testing.T) {
			got, err := spec.Parse(s)
			if want == none {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
			again, err := spec.Parse(got.String())
			require.NoError(t, err)
			require.Equal(t, want, again)
			_, err = got.New("")
			require.NoError(t, err)
		})
	}
}

func TestString(t *testing.T) {
	for want, l := range map[string]spec.Limit{
		"unlimited":                           {},
		"100/s":                               bucket(100, time.Second),
		"1/min":                               bucket(1, time.Minute),
		"1/day":                               bucket(1, day),
		"1/1h30m":                             bucket(1, 90*time.Minute),
		"1/48h":                               bucket(1, 2*day),
		"1/2m":                                bucket(1, 2*time.Minute),
		"1/1m0.5s":                            bucket(1, 60500*time.Millisecond),
		"1/1.5us":                             bucket(1, 1500),
		"1/2h0m1s":                            bucket(1, 2*time.Hour+time.Second),
		"8388608/s burst 1048576":             {Kind: spec.TokenBucket, Permits: 8 << 20, Per: time.Second, Burst: 1 << 20},
		"8MiB/s burst 1000KiB":                {Kind: spec.TokenBucket, Permits: 8 << 20, Per: time.Second, Burst: 1_024_000, Bytes: true},
		"1001B/s queue 500kB":                 {Kind: spec.TokenBucket, Permits: 1001, Per: time.Second, Queue: 500_000, Bytes: true},
		"fixed 2GB/day":                       {Kind: spec.FixedWindow, Permits: 2e9, Per: day, Bytes: true},
		"concurrency 1GiB":                    {Kind: spec.Concurrency, Permits: 1 << 30, Bytes: true},
		"fixed 1/h queue 2":                   {Kind: spec.FixedWindow, Permits: 1, Per: time.Hour, Queue: 2},
		"sliding 1/s segments 10":             {Kind: spec.SlidingWindow, Permits: 1, Per: time.Second, Segments: 10},
		"concurrency 50 queue 200 fair-share": {Kind: spec.Concurrency, Permits: 50, Queue: 200, Order: core.FairShare},
		"concurrency 1 newest-first":          {Kind: spec.Concurrency, Permits: 1, Order: core.NewestFirst},
	} {
		require.Equal(t, want, l.String())
		got, err := spec.Parse(want)
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
	require.Contains(t, spec.Limit{Kind: 9, Permits: -1}.String(), "Permits:-1")
	require.Equal(t, "Kind(9)", spec.Kind(9).String())
}

func TestErrors(t *testing.T) {
	for s, want := range map[string]string{
		"":                              `spec: no words, want a limit such as 100/s`,
		"   ":                           `spec: no words, want a limit such as 100/s`,
		"100/x":                         `spec: "100/x": unknown time "x", want s, min, h, day or a duration such as 250ms`,
		"100/":                          `spec: "100/": unknown time "", want s, min, h, day or a duration such as 250ms`,
		"100/200000d":                   `spec: "100/200000d": unknown time "200000d", want s, min, h, day or a duration such as 250ms`,
		"100/0s":                        `spec: "100/0s": the time "0s" is not above 0`,
		"100/-1s":                       `spec: "100/-1s": the time "-1s" is not above 0`,
		"100":                           `spec: "100": no time, want an amount such as 100/s`,
		"5x":                            `spec: "5x": unknown unit "x", want k, M, G, T, Ki, Mi, Gi or Ti, with or without B, or B alone`,
		"10rps":                         `spec: "10rps": want it as 10/s`,
		"1kqps":                         `spec: "1kqps": want it as 1k/s`,
		"10rpm burst 5":                 `spec: "10rpm": want it as 10/min`,
		"10rpd":                         `spec: "10rpd": want it as 10/day`,
		"5Hz":                           `spec: "5Hz": want it as 5/s`,
		"8MBps":                         `spec: "8MBps": want it as 8MB/s`,
		"8Mbps":                         `spec: "8Mbps": bits or bytes? want bytes, such as 8MB/s`,
		"/s":                            `spec: "/s": want an amount, such as 100/s`,
		"-1/s":                          `spec: "-1/s": want a whole number, such as 20`,
		"0/s":                           `spec: "0/s": want at least 1`,
		"1.5k/s":                        `spec: "1.5k/s": a fraction, want a whole number, such as 1/2s in place of 0.5/s`,
		".5/s":                          `spec: ".5/s": a fraction, want a whole number, such as 1/2s in place of 0.5/s`,
		"100,000/s":                     `spec: "100,000/s": a comma, want a whole number such as 1_000`,
		"1x/s":                          `spec: "1x/s": unknown unit "x", want k, M, G, T, Ki, Mi, Gi or Ti, with or without B, or B alone`,
		"1i/s":                          `spec: "1i/s": unknown unit "i", want k, M, G, T, Ki, Mi, Gi or Ti, with or without B, or B alone`,
		"1\u212a/s":                     "spec: \"1\u212a/s\": unknown unit \"\u212a\", want k, M, G, T, Ki, Mi, Gi or Ti, with or without B, or B alone",
		"_1/s":                          `spec: "_1/s": a stray _, want it between digits, as in 1_000`,
		"1_/s":                          `spec: "1_/s": a stray _, want it between digits, as in 1_000`,
		"1__0/s":                        `spec: "1__0/s": a stray _, want it between digits, as in 1_000`,
		"9223372036854775808/s":         `spec: "9223372036854775808/s": too large, want at most ` + strconv.Itoa(math.MaxInt),
		"99999999999999999999999/s":     `spec: "99999999999999999999999/s": too large, want at most ` + strconv.Itoa(math.MaxInt),
		"9999999999T/s":                 `spec: "9999999999T/s": too large, want at most ` + strconv.Itoa(math.MaxInt),
		"100/s, concurrency 5":          `spec: "100/s,": a comma, want a single limit`,
		"foo":                           `spec: "foo": unknown kind, want bucket, fixed, sliding, concurrency, unlimited, blocked or paused, or an amount such as 100/s`,
		"bucket":                        `spec: "bucket": want an amount after it, such as 100/s`,
		"concurrency":                   `spec: "concurrency": want an amount after it, such as 10`,
		"concurrency 10/s":              `spec: "10/s": concurrency has no time, want an amount such as 10`,
		"concurrency queue 5":           `spec: "queue": want an amount, such as 10`,
		"fixed 10":                      `spec: "10": no time, want an amount such as 10/s`,
		"unlimited 5":                   `spec: "5": unknown word, want nothing more`,
		"unlimited queue 5":             `spec: "queue": not a word of unlimited, want nothing more`,
		"100/s 5":                       `spec: "5": unknown word, want burst, queue, oldest-first, newest-first or fair-share`,
		"100/s bucket":                  `spec: "bucket": unknown word, want burst, queue, oldest-first, newest-first or fair-share`,
		"fixed 1/s burst 5":             `spec: "burst": not a word of fixed, want queue, oldest-first, newest-first or fair-share`,
		"1/s segments 5":                `spec: "segments": not a word of bucket, want burst, queue, oldest-first, newest-first or fair-share`,
		"1/s burst":                     `spec: "burst": want a number after it, such as burst 20`,
		"1/s queue burst 1":             `spec: "burst": want a whole number, such as 20`,
		"1/s burst 0":                   `spec: "0": want at least 1`,
		"1/s queue -1":                  `spec: "-1": want a whole number, such as 20`,
		"1/s burst 1 BURST 1":           `spec: "BURST": given twice, want it once`,
		"1/s queue 1 queue 1":           `spec: "queue": given twice, want it once`,
		"1/s newest-first oldest-first": `spec: "oldest-first": a second order, want oldest-first, newest-first or fair-share once`,
		"1/month":                       `spec: "1/month": a month has no fixed length, want fixed 1/month`,
		"sliding 2k/2Years":             `spec: "2k/2Years": a year has no fixed length, want fixed 2k/year`,
		"fixed 1/2month":                `spec: "1/2month": want one month, as in 1/month`,
		"fixed 1/1year":                 `spec: "1/1year": want one year, as in 1/year`,
		"fixed 1/mon":                   `spec: "1/mon": unknown time "mon", want s, min, h, day or a duration such as 250ms`,
		"fixed 1/month day":             `spec: "day": want a value after it, such as day 15`,
		"fixed 1/month day 0":           `spec: "0": want at least 1`,
		"fixed 1/month day 32":          `spec: "32": want a day from 1 to 31`,
		"fixed 1/month day 1 day 2":     `spec: "day": given twice, want it once`,
		"fixed 1/week day 2":            `spec: "day": only for a month, as in 1000/month day 15`,
		"fixed 1/week from mon":         `spec: "mon": want a weekday, such as monday`,
		"fixed 1/week from":             `spec: "from": want a value after it, such as from sunday`,
		"fixed 1/month from monday":     `spec: "from": only for a week, as in 500/week from sunday`,
		"fixed 1/2day tz UTC":           `spec: "tz": only for a day, week, month or year, as in 100/day tz UTC`,
		"fixed 1/1h tz UTC":             `spec: "tz": only for a day, week, month or year, as in 100/day tz UTC`,
		"fixed 1/d tz UTC":              `spec: "tz": only for a day, week, month or year, as in 100/day tz UTC`,
		"fixed 1/day tz":                `spec: "tz": want a value after it, such as tz Europe/Berlin`,
		"fixed 1/day tz Europe/Berln":   `spec: "tz Europe/Berln": unknown time zone`,
		"fixed 1/day tz ../UTC":         `spec: "tz ../UTC": unknown time zone`,
		"1/day tz UTC":                  `spec: "tz": not a word of bucket, want burst, queue, oldest-first, newest-first or fair-share`,
		"fixed 1/month burst 5":         `spec: "burst": not a word of fixed, want day, tz, queue, oldest-first, newest-first or fair-share`,
		"sliding 1/5ns":                 `spec: "segments": 10 are more than the 5 nanoseconds of the window`,
		"sliding 1/ns segments 2":       `spec: "segments": 2 are more than the 1 nanoseconds of the window`,
	} {
		t.Run(s, func(t *testing.T) {
			got, err := spec.Parse(s)
			require.EqualError(t, err, want)
			require.Zero(t, got)
		})
	}
}

// The text interfaces, as flags and JSON use them. An error leaves the value unchanged.
func TestText(t *testing.T) {
	type config struct {
		Limit spec.Limit
		Kind  spec.Kind
	}
	c := config{bucket(1, time.Minute), spec.FixedWindow}
	b, err := json.Marshal(c)
	require.NoError(t, err)
	require.JSONEq(t, `{"Limit": "1/min", "Kind": "fixed"}`, string(b))
	var back config
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, c, back)
	require.NoError(t, json.Unmarshal([]byte(`{"Kind": "SLIDING"}`), &back))
	require.Equal(t, spec.SlidingWindow, back.Kind)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"Kind": "odd"}`), &back), `unknown kind "odd", want bucket`)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"Limit": "odd"}`), &back), `"odd": unknown kind`)
	require.Equal(t, config{bucket(1, time.Minute), spec.SlidingWindow}, back)

	_, err = spec.Kind(9).MarshalText()
	require.ErrorContains(t, err, "spec: Kind = 9, want bucket")
	_, err = spec.Limit{Permits: 1}.MarshalText()
	require.ErrorContains(t, err, "spec: Limit.Permits = 1, want 0 for kind unlimited")

	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var l spec.Limit
	flags.TextVar(&l, "limit", bucket(10, time.Second), "how fast")
	require.Equal(t, bucket(10, time.Second), l)
	require.Equal(t, "10/s", flags.Lookup("limit").DefValue)
	require.NoError(t, flags.Parse([]string{"-limit", "concurrency 5"}))
	require.Equal(t, spec.Limit{Kind: spec.Concurrency, Permits: 5}, l)
	require.ErrorContains(t, flags.Parse([]string{"-limit", "5/x"}), `unknown time "x"`)
}

// FuzzParse: nothing panics, what parses is valid, and its String parses to the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"100/s", "bucket 5000/h burst 100 queue 20", "8MiB/s burst 1MiB", "fixed 1000/1h", "sliding 100/1m segments 6",
		"concurrency 10 queue 5 newest-first", "unlimited", "1_000k/1h2m3.5s oldest-first", "9223372036854775807/2562047h",
		"1/µs", "1/x", "10rps", "8Mbps", "bps", "", "concurrency", "1/s queue", "1\xff/s", "fixed 1/7days",
		"fixed 1/month day 31 tz Europe/Berlin queue 3", "fixed 1/week from sunday", "fixed 1k/Year tz utc", "fixed 1/day tz Local",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := spec.Parse(s)
		if err != nil {
			require.Zero(t, l)
			require.True(t, strings.HasPrefix(err.Error(), "spec: "), "%v", err)
			return
		}
		again, err := spec.Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
		limiter, err := l.New("")
		require.NoError(t, err)
		require.NoError(t, l.Update(limiter))
	})
}

// FuzzString: String of every valid limit parses to the same.
func FuzzString(f *testing.F) {
	f.Add(uint8(2), 100, int64(time.Second), 5, 0, 3, uint8(1+3))
	f.Add(uint8(4), 100, int64(time.Hour+1), 0, 7, 0, uint8(0))
	f.Add(uint8(1), math.MaxInt, int64(0), 0, 0, math.MaxInt, uint8(1))
	f.Add(uint8(3), 1, int64(math.MaxInt64), 0, 0, 0, uint8(0))
	f.Fuzz(func(t *testing.T, kind uint8, permits int, per int64, burst, segments, queue int, order uint8) {
		l := spec.Limit{
			Kind: spec.Kind(kind % 7), Permits: permits, Per: time.Duration(per),
			Burst: burst, Segments: segments, Queue: queue, Order: core.QueueOrder(order % 3), Bytes: order/3%2 == 1,
		}
		_ = l.String()
		if _, err := l.New(""); err != nil {
			_, err := l.MarshalText()
			require.Error(t, err)
			return
		}
		text, err := l.MarshalText()
		require.NoError(t, err)
		again, err := spec.Parse(string(text))
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}

func TestInvalidLimits(t *testing.T) {
	_, err := spec.Limit{Kind: spec.TokenBucket, Segments: 3, Queue: -1, Order: 9}.New("")
	for _, want := range []string{
		"spec: Limit.Permits = 0, want at least 1",
		"spec: Limit.Per = 0s, want above 0",
		"spec: Limit.Segments = 3, want 0 for kind bucket",
		"spec: Limit.Queue = -1, want at least 0",
		"spec: Limit.Order = QueueOrder(9), want oldest-first, newest-first or fair-share",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = spec.Limit{Bytes: true}.New("")
	require.ErrorContains(t, err, "spec: Limit.Bytes = true, want false for kind unlimited")
	_, err = spec.Limit{Kind: 7}.New("")
	require.ErrorContains(t, err, "spec: Limit.Kind = 7, want bucket")
	_, err = spec.Limit{Kind: spec.SlidingWindow, Permits: 1, Per: 9}.New("")
	require.ErrorContains(t, err, "spec: Limit.Segments = 10, want at most 9")
	require.NotErrorIs(t, err, spec.ErrKind)
}
