package simulate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// answers plays the questions as the playground's server does.
func answers(t *testing.T, questions []question) (all []play.Output) {
	t.Helper()
	for _, q := range questions {
		p := new(play.Page)
		p.Load([]byte(q.Log))
		out, err := p.Play(t.Context(), q.Input)
		require.NoError(t, err)
		all = append(all, out)
	}
	return all
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

// decided returns simulate's decisions: from its flags, by the path of its requests.
func decided(t *testing.T, q question) []play.Decision {
	t.Helper()
	f := flags{limit: q.Input.Limits[0], key: q.Input.Key}
	p, err := f.plan()
	require.NoError(t, err)
	var r recorder
	pl := engine.NewPlayer(&r, 1)
	var base int64
	if q.Input.Arrivals != "" {
		a, err := engine.ParseArrivals(q.Input.Arrivals, q.Input.Seed)
		require.NoError(t, err)
		a, err = a.Taking(q.Input.Takes)
		require.NoError(t, err)
		for one := range engine.FromFirst(a.Requests(p), &base) {
			pl.Play(&one)
		}
		pl.Finish()
		return r.decisions
	}
	lines, err := accesslog.New(q.Input.Fields)
	require.NoError(t, err)
	l, err := openLog("-", strings.NewReader(q.Log), lines, p)
	require.NoError(t, err)
	go l.run(t.Context())
	var failed error
	requests, moved := merge([]*log{l}, &failed), 0
	if !q.Input.Exact {
		requests = engine.Spread(requests, &moved)
	}
	for one := range engine.FromFirst(requests, &base) {
		pl.Play(&one)
	}
	pl.Finish()
	require.NoError(t, failed)
	return r.decisions
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
// same nanosecond, for requests of the same keys.
func TestPlaygroundDecidesAlike(t *testing.T) {
	all := questions()
	for i, out := range answers(t, all) {
		q := all[i]
		what := fmt.Sprintf("%s on %s%s by %q", q.Input.Limits[0], q.Input.Arrivals, q.Input.Fields, q.Input.Key)
		require.Empty(t, out.Error, what)
		want := decided(t, q)
		assert.Greater(t, len(want), 700, what)
		assert.Equal(t, want, out.Results[0].Decisions, what)
	}
}

// TestPlaygroundCountsAlike: its figures are those of the report.
func TestPlaygroundCountsAlike(t *testing.T) {
	folder := t.TempDir()
	all := questions()
	for i, out := range answers(t, all) {
		in := all[i].Input
		f := flags{limit: in.Limits[0], key: in.Key, arrivals: in.Arrivals, takes: in.Takes, seed: in.Seed, fields: in.Fields, exact: in.Exact, top: 10}
		var names []string
		if in.Arrivals == "" {
			names = []string{filepath.Join(folder, "log")}
			require.NoError(t, os.WriteFile(names[0], []byte(all[i].Log), 0o600))
		}
		r, err := f.simulate(t.Context(), names, nil)
		require.NoError(t, err)
		want, got := r.report(10), out.Results[0]
		assert.Equal(t, []int{want.Requests, want.Granted, want.Queued, want.Rejected}, []int{out.Requests, got.Granted, got.Waited, got.Rejected})
		assert.Equal(t, []float64{want.Wait.P50, want.Wait.P99, want.Wait.Max, want.Span}, []float64{got.P50, got.P99, got.Longest, got.End})
	}
}
