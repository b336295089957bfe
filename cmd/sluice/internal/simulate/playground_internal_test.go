package simulate

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/accesslog"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// question is what the playground and simulate are asked. log is the text of a log, or "".
type question struct {
	Log   string
	Input play.Input
}

// recorder is simulate's count, with a record of its decisions.
type recorder struct {
	engine.Stats

	decisions []play.Decision
}

func (r *recorder) Grant(now int64, q *engine.Request, queued bool) {
	r.Stats.Grant(now, q, queued)
	r.decisions = append(r.decisions, play.Decision{Granted: true, At: now, Arrived: q.At, Key: q.Steps[0].ID})
}

func (r *recorder) Reject(now int64, q *engine.Request, s *engine.Step) {
	r.Stats.Reject(now, q, s)
	r.decisions = append(r.decisions, play.Decision{At: now, Arrived: q.At, Key: q.Steps[0].ID})
}

// recorded returns what simulate decides: from its flags, by the path of its requests.
func recorded(t *testing.T, q question) *recorder {
	t.Helper()
	f := flags{limit: q.Input.Limits[0], key: q.Input.Key}
	p, err := f.plan()
	require.NoError(t, err)
	r := new(recorder)
	var requests iter.Seq[engine.Request]
	var failed error
	moved := 0
	if q.Input.Arrivals != "" {
		a, err := engine.ParseArrivals(q.Input.Arrivals, q.Input.Seed)
		require.NoError(t, err)
		a, err = a.Taking(q.Input.Takes)
		require.NoError(t, err)
		requests = a.Requests(p)
	} else {
		lines, err := accesslog.New(q.Input.Fields)
		require.NoError(t, err)
		l, err := openLog("-", strings.NewReader(q.Log), lines, p)
		require.NoError(t, err)
		go l.run(t.Context())
		requests = merge([]*log{l}, &failed)
		if !q.Input.Exact {
			requests = engine.Spread(requests, &moved)
		}
	}
	pl := engine.NewPlayer(r, 1)
	var base int64
	for one := range engine.FromFirst(requests, &base) {
		pl.Play(&one)
	}
	pl.Finish()
	require.NoError(t, failed)
	return r
}

// questions are limits of all kinds on traffic of all kinds.
func questions() (all []question) {
	r := rand.New(rand.NewPCG(1, 2))
	var access, app strings.Builder
	for i := range 2000 {
		second := i / 15
		fmt.Fprintf(&access, "192.0.2.%d - - [10/Oct/2025:13:%02d:%02d +0000] \"GET /%d HTTP/1.1\" 200 1\n", r.IntN(9), second/60, second%60, r.IntN(3))
		fmt.Fprintf(&app, "{\"ts\":%d.%03d,\"who\":\"%d\",\"took\":%d}\n", 1748779200+i/20, r.IntN(1000), r.IntN(4), r.IntN(400))
	}
	traffic := []question{
		{Input: play.Input{Arrivals: "poisson:90/s,20s", Seed: 7}},
		{Input: play.Input{Arrivals: "constant:70/s,20s"}},
		{Input: play.Input{Arrivals: "bursts:100/2s,20s"}},
		{Input: play.Input{Arrivals: "poisson:90/s,20s", Seed: 7, Takes: "40ms"}},
		{Input: play.Input{Arrivals: "day:40/s,40s,9", Seed: 3, Key: "client", Takes: "exponential:150ms"}},
		{Input: play.Input{Arrivals: "day:40/s,40s,9", Seed: 3, Key: "client"}},
		{Log: access.String(), Input: play.Input{Key: "ip"}},
		{Log: access.String(), Input: play.Input{Exact: true}},
		{Log: app.String(), Input: play.Input{Fields: "time=ts,key=who,duration=took:ms", Key: "key"}},
	}
	for _, limit := range []string{
		"10/s burst 5", "50/s burst 20 queue 30", "50/s queue 9 newest-first", "fixed 20/1s queue 40", "sliding 50/1s segments 7", "sliding 10/3s queue 3",
		"concurrency 3 queue 2", "unlimited",
	} {
		for _, q := range traffic {
			q.Input.Limits, q.Input.Decisions = []string{limit}, true
			all = append(all, q)
		}
	}
	return all
}

// TestPlaygroundDecidesAlike: the playground makes every decision that simulate makes, in the same order and at the
// same nanosecond, for requests of the same keys, and counts alike.
func TestPlaygroundDecidesAlike(t *testing.T) {
	for _, q := range questions() {
		what := fmt.Sprintf("%s on %s%s by %q", q.Input.Limits[0], q.Input.Arrivals, q.Input.Fields, q.Input.Key)
		p := new(play.Page)
		p.Load([]byte(q.Log))
		out, err := p.Play(t.Context(), q.Input)
		require.NoError(t, err)
		require.Empty(t, out.Error, what)
		want, got := recorded(t, q), out.Results[0]
		assert.Greater(t, len(want.decisions), 700, what)
		assert.Equal(t, want.decisions, got.Decisions, what)
		assert.Equal(t, want.Counts, got.Counts, what)
		assert.Equal(t, want.Waits.Waits(), got.Wait, what)
	}
}
