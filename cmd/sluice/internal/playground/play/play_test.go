package play_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const access = `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1
192.0.2.2 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1
nonsense
192.0.2.1 - - [10/Oct/2025:13:55:37 +0000] "GET / HTTP/1.1" 200 1
192.0.2.1 - - [10/Oct/2025:13:55:35 +0000] "GET / HTTP/1.1" 200 1
`

// plays returns what a page shows.
func plays(tb testing.TB, p *play.Page, in play.Input) play.Output {
	tb.Helper()
	out, err := p.Play(tb.Context(), in)
	require.NoError(tb, err)
	return out
}

// sum adds up the counts of bins.
func sum(r play.Result) (all engine.Bin) {
	for _, b := range r.Bins {
		all.Arrivals += b.Arrivals
		all.Grants += b.Grants
		all.Rejections += b.Rejections
	}
	return all
}

// TestSeries: what is drawn adds up to the figures.
func TestSeries(t *testing.T) {
	for _, arrivals := range []string{"constant:100/s,10s", "poisson:1000/s,1m", "bursts:300/10s,5m", "day:1/s,24h", "poisson:100/s,1m,9", "constant:1/s,1s"} {
		in := play.Input{Limits: []string{"50/s burst 9 queue 30", "sliding 100/1s queue 2", "fixed 10/7s", "unlimited"}, Arrivals: arrivals, Seed: 3}
		if strings.HasSuffix(arrivals, ",9") {
			in.Key = "client"
		}
		out := plays(t, new(play.Page), in)
		require.Empty(t, out.Error)
		assert.LessOrEqual(t, out.Span/out.Width, 400.0)
		for i, r := range out.Results {
			what := arrivals + " " + in.Limits[i]
			assert.Equal(t, out.Requests, r.Granted+r.Rejected, what)
			assert.Equal(t, out.Requests, sum(r).Arrivals, what)
			assert.Equal(t, r.Rejected, sum(r).Rejections, what)
			assert.LessOrEqual(t, sum(r).Grants, r.Granted, what)
			assert.LessOrEqual(t, len(r.Bins), 510, what)
			for _, b := range r.Bins {
				assert.True(t, b.Left >= -1 && b.Left <= r.Permits, what)
			}
			if r.Queued == 0 {
				assert.Zero(t, r.Queue, what)
				assert.Equal(t, r.Granted, sum(r).Grants, what)
			}
		}
		assert.Equal(t, -1, out.Results[3].Bins[0].Left)
	}
}

// TestLeft draws the permits of a bucket that is emptied and fills.
func TestLeft(t *testing.T) {
	out := plays(t, new(play.Page), play.Input{Limits: []string{"1/s burst 10"}, Arrivals: "bursts:10/400s,401s", Seed: 1})
	require.Empty(t, out.Error)
	bins := out.Results[0].Bins
	assert.Len(t, bins, 401, "a bin is a second wide")
	for i, want := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10} {
		assert.Equal(t, want, bins[i].Left)
	}
	assert.Equal(t, 10, bins[399].Left)
	assert.Equal(t, 0, bins[400].Left)
}

// TestQueueThatOutlastsThePage: a queue that takes a day to drain is not drawn to its end, and nothing is lost.
func TestQueueThatOutlastsThePage(t *testing.T) {
	out := plays(t, new(play.Page), play.Input{Limits: []string{"1/h queue 100"}, Arrivals: "constant:10/s,20s", Seed: 1})
	r := out.Results[0]
	assert.Equal(t, []int{101, 100, 99}, []int{r.Granted, r.Queued, r.Rejected})
	assert.Equal(t, 100, r.Queue)
	assert.InEpsilon(t, 100*3600.0-0.1*100, r.Wait.Max, 1e-9)
	assert.Less(t, float64(len(r.Bins))*out.Width, 30.0)
	assert.Equal(t, 1, sum(r).Grants, "the others are granted later than what is drawn")
}

// TestSeveralLimits: all of them apply, what is left is what the tightest has, and what is copied has all of them.
func TestSeveralLimits(t *testing.T) {
	in := play.Input{Limits: []string{"100/s, fixed 30/h"}, Key: "client", Arrivals: "constant:100/s,2s,2", Seed: 1}
	out := plays(t, new(play.Page), in)
	r := out.Results[0]
	require.Nil(t, r.Fault)
	assert.Equal(t, []int{60, 140, 30}, []int{r.Granted, r.Rejected, r.Permits})
	assert.Len(t, r.Keys, 2)
	assert.Equal(t, "fixed 30/h", r.Keys[0].Limit)
	assert.Contains(t, r.Go, `spec.ParseLimits("100/s, fixed 30/h")`)
	assert.Contains(t, r.YAML, `limit: "100/s, fixed 30/h"}`)
	assert.Contains(t, r.Command, `--limit '100/s, fixed 30/h' --key client`)
}

// TestLog plays a log, compressed and not, and says what to know about it.
func TestLog(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write([]byte(access))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for _, log := range [][]byte{[]byte(access), z.Bytes()} {
		p := new(play.Page)
		p.Load(log)
		out := plays(t, p, play.Input{Limits: []string{"fixed 1/10s"}, Key: "ip", Log: "a b.log", Exact: true})
		require.Empty(t, out.Error)
		assert.Equal(t, []int{4, 2}, []int{out.Requests, out.Keys})
		assert.Equal(t, []int{2, 2}, []int{out.Results[0].Granted, out.Results[0].Rejected})
		assert.Equal(t, []string{"Lines that are no requests: 1.", "Late lines: 1, by up to 2s; each counts at the newest time before it."}, out.Notes)
		assert.Equal(t, "sluice simulate --limit 'fixed 1/10s' --key ip --exact 'a b.log'\n", out.Results[0].Command)
		out = plays(t, p, play.Input{Limits: []string{"fixed 1/10s"}, Key: "user"})
		assert.Contains(t, out.Notes, "Requests without user: 4 of 4; they share a limit.")
		assert.Contains(t, out.Notes, "The log has whole seconds: requests were spread evenly within each second.")
	}
}

// TestErrors: what cannot be played is said, and limits that are wrong are marked all the same.
func TestErrors(t *testing.T) {
	p := new(play.Page)
	for _, test := range []struct {
		log   string
		in    play.Input
		error string
	}{
		{"", play.Input{}, "there is no log yet: paste one, or drop a file"},
		{"nonsense", play.Input{}, "none of its 1 lines is a request"},
		{"#", play.Input{}, "the log is empty"},
		{"\x1f\x8b", play.Input{}, "EOF"},
		{access, play.Input{Fields: "x"}, "--fields"},
		{access, play.Input{Key: "moon"}, `"moon" is not a key; use ip`},
		{"", play.Input{Arrivals: "poisson:1/s"}, "is not a pattern such as poisson:100/s,10m"},
		{"", play.Input{Arrivals: "constant:1/h,0.000001s"}, ""},
		{"", play.Input{Arrivals: "poisson:1/h,1s", Seed: 1}, "there is no request in this time"},
		{"", play.Input{Arrivals: "poisson:5001/s,1000s"}, "more than 5000000 requests"},
		{"", play.Input{Arrivals: "bursts:1000000000/10000h,1s"}, "more than 5000000 requests"},
		{"", play.Input{Arrivals: "constant:1/1000000h,2500000h"}, "more than 100 years"},
		{`{"time":1}` + "\n" + `{"time":4e9}`, play.Input{}, "more than 100 years"},
		{"", play.Input{Arrivals: "constant:1/10h,876000h"}, ""},
		{"", play.Input{Arrivals: "constant:9223372036854775807/ns,100000h"}, "more than 5000000 requests"},
	} {
		p.Load([]byte(test.log))
		test.in.Limits = []string{"1/s", "1/x"}
		out := plays(t, p, test.in)
		if test.error == "" {
			assert.Empty(t, out.Error)
			assert.LessOrEqual(t, len(out.Results[0].Bins), 510)
			continue
		}
		assert.Contains(t, out.Error, test.error)
		assert.Nil(t, out.Results[0].Fault)
		assert.Equal(t, &play.Fault{Message: `"1/x": unknown time "x", want s, min, h, day or a duration such as 250ms`, From: 0, To: 3}, out.Results[1].Fault)
	}
}

// TestFault finds the word.
func TestFault(t *testing.T) {
	for text, word := range map[string]string{
		"100/s [brust] 5":                 "unknown word",
		"100/s burst 5 [burst] 6":         "twice",
		"100/s queue 5 [queue]":           "twice",
		"100/s  [BURST]":                  "want a number after it",
		"[Sliding]":                       "want an amount after it",
		"sliding 10/5ns [segments] 6":     "more than the 5 nanoseconds",
		"sliding 10/5ns":                  "more than the 5 nanoseconds",
		"[10rps]":                         "want it as 10/s",
		"1/µs burst 5 [\u00e4\U0001F600]": "unknown word",
		"100/s, [bogus]":                  "unknown kind",
		"100/s burst 5, 9/s [brust] 7":    "unknown word",
		"[5MB/s]":                         "is an amount of bytes, but requests are counted",
		"5/s, [1kB/s]":                    "is an amount of bytes",
		"blocked":                         "nothing to simulate",
		"":                                "no words",
	} {
		clean := strings.NewReplacer("[", "", "]", "").Replace(text)
		f := plays(t, new(play.Page), play.Input{Limits: []string{clean}, Arrivals: "constant:1/s,1s"}).Results[0].Fault
		require.NotNil(t, f, text)
		assert.Contains(t, f.Message, word, text)
		u := utf16.Encode([]rune(clean))
		marked := clean
		if f.To > 0 {
			marked = fmt.Sprintf("%s[%s]%s", string(utf16.Decode(u[:f.From])), string(utf16.Decode(u[f.From:f.To])), string(utf16.Decode(u[f.To:])))
		}
		assert.Equal(t, text, marked)
	}
}

// BenchmarkMillion plays a million arrivals.
func BenchmarkMillion(b *testing.B) {
	for _, limit := range []string{"9000/s burst 100", "9000/s burst 100 queue 500", "sliding 9000/1s"} {
		b.Run("limit="+limit, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plays(b, new(play.Page), play.Input{Limits: []string{limit}, Arrivals: "poisson:10000/s,100s", Seed: 1})
			}
		})
	}
}

// TestTakes: a concurrency limit grants what its capacity is, on synthetic requests too.
func TestTakes(t *testing.T) {
	in := play.Input{Limits: []string{"concurrency 5", "10/s"}, Arrivals: "constant:100/s,10s", Takes: "500ms"}
	out := plays(t, new(play.Page), in)
	require.Empty(t, out.Error)
	assert.Equal(t, 100, out.Results[0].Granted, "5 at a time, 500 ms each: 10 a second")
	assert.Empty(t, out.Results[0].Notes)
	assert.Equal(t, "sluice simulate --limit 'concurrency 5' --arrivals constant:100/s,10s --seed 0 --takes 500ms\n", out.Results[0].Command)
	assert.NotContains(t, out.Results[1].Command, "--takes")
	in.Takes = ""
	out = plays(t, new(play.Page), in)
	assert.Equal(t, 1000, out.Results[0].Granted)
	assert.Equal(t, []string{"The requests take no time, so a concurrency limit is held for none."}, out.Results[0].Notes)
	in.Takes = "soon"
	assert.Equal(t, `"soon" is not a duration such as 450ms or exponential:450ms`, plays(t, new(play.Page), in).Error)
}

// TestKeys: with per-client limits, the page lists the clients that were rejected.
func TestKeys(t *testing.T) {
	in := play.Input{Limits: []string{"10/s", "unlimited"}, Arrivals: "poisson:300/s,1m,7", Seed: 1, Key: "client"}
	out := plays(t, new(play.Page), in)
	require.Empty(t, out.Error)
	keys := out.Results[0].Keys
	require.Len(t, keys, 5)
	assert.Equal(t, "client 1", keys[0].Key)
	rejected := 0
	for i, k := range keys {
		assert.Less(t, k.Rejected, k.Requests)
		assert.True(t, i == 0 || k.Rejected <= keys[i-1].Rejected)
		rejected += k.Rejected
	}
	assert.LessOrEqual(t, rejected, out.Results[0].Rejected)
	assert.Empty(t, out.Results[1].Keys)
	in.Key = ""
	assert.Empty(t, plays(t, new(play.Page), in).Results[0].Keys, "all share one limit")
}

// TestMessageQuotesWhatWasTyped: not the arrivals that the page made of it.
func TestMessageQuotesWhatWasTyped(t *testing.T) {
	out := plays(t, new(play.Page), play.Input{Arrivals: "poisson:fast,1m"})
	assert.Equal(t, `"fast" is not a rate such as 100/s`, out.Error)
	assert.True(t, plays(t, new(play.Page), play.Input{}).Empty)
	assert.False(t, out.Empty)
}

// TestCanceled: a question that is canceled before it is played makes no requests.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(play.Page).Play(ctx, play.Input{Arrivals: "its error would be the answer"})
	assert.ErrorIs(t, err, context.Canceled)
}

// TestFlows: of five clients the first sends most. By fair shares the others do not wait for it, and in the order of arrival all do.
func TestFlows(t *testing.T) {
	in := play.Input{
		Limits: []string{"20/s burst 1 queue 1000 fair-share", "20/s burst 1 queue 1000"}, Flow: "client", Arrivals: "poisson:30/s,20s,5", Seed: 1,
	}
	page := new(play.Page)
	out := plays(t, page, in)
	require.Empty(t, out.Error)
	fair, oldest := out.Results[0].Flows, out.Results[1].Flows
	require.Len(t, fair, 5)
	require.Len(t, oldest, 5)
	assert.Equal(t, "client 1", fair[0].Key)
	assert.Equal(t, "client 5", fair[4].Key)
	sum := 0
	for i, f := range fair {
		assert.Equal(t, f.Requests, f.Granted+f.Rejected)
		assert.Equal(t, oldest[i].Requests, f.Requests)
		sum += f.Requests
	}
	assert.Equal(t, out.Requests, sum)
	assert.Less(t, fair[4].Wait.P99, 1.0, "it wants less than its share")
	assert.Greater(t, oldest[4].Wait.P99, 5.0)
	assert.Greater(t, fair[0].Wait.P99, oldest[0].Wait.P99)
	assert.Contains(t, out.Results[0].Command, "--flow client ")
	assert.NotContains(t, out.Results[1].Command, "--flow")
	assert.Contains(t, out.Results[0].YAML, "flow: ip")

	in.Flow = ""
	out = plays(t, page, in)
	assert.Empty(t, out.Results[0].Flows)
	assert.Equal(t, out.Results[0].Wait, out.Results[1].Wait, "one flow waits in the order of arrival")
	in.Flow = "nothing"
	assert.NotEmpty(t, plays(t, page, in).Error)
}
