package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// question is what the playground and simulate are asked. log is the text of a log, or "".
type question struct {
	Log   string
	Input play.Input
}

// answer returns what simulate reports.
func (q question) answer(t *testing.T) report {
	t.Helper()
	in := q.Input
	f := flags{limit: in.Limits[0], key: in.Key, fields: in.Fields, arrivals: in.Arrivals, takes: in.Takes, seed: in.Seed, exact: in.Exact}
	r, err := f.simulate(nil, strings.NewReader(q.Log))
	require.NoError(t, err)
	return r.report(5)
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
		"concurrency 3 queue 2", "unlimited", "30/s burst 9, fixed 40/5s", "20/s queue 9, concurrency 4 queue 3",
	} {
		for _, q := range traffic {
			q.Input.Limits = []string{limit}
			all = append(all, q)
		}
	}
	return all
}

// TestPlaygroundDecidesAlike: the playground counts as simulate does: decisions, waits to the nanosecond, and keys.
func TestPlaygroundDecidesAlike(t *testing.T) {
	for _, q := range questions() {
		what := fmt.Sprintf("%s on %s%s by %q", q.Input.Limits[0], q.Input.Arrivals, q.Input.Fields, q.Input.Key)
		p := new(play.Page)
		p.Load([]byte(q.Log))
		out, err := p.Play(t.Context(), q.Input)
		require.NoError(t, err)
		require.Empty(t, out.Error, what)
		want, got := q.answer(t), out.Results[0]
		assert.Equal(t, want.Counts, got.Counts, what)
		assert.Equal(t, want.Wait, got.Wait, what)
		if out.Keys > 1 {
			rejected := slices.DeleteFunc(want.Keys, func(k engine.KeyRow) bool { return k.Rejected == 0 })
			assert.Equal(t, rejected, got.Keys, what)
		}
	}
}
