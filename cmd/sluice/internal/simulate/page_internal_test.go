package simulate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// TestLabelEvery: labels are at round times, and there are at most seven of them.
func TestLabelEvery(t *testing.T) {
	for _, test := range []struct {
		bins    int
		seconds int64 // of a bin
		want    int64 // seconds between labels
	}{
		{1, 1, 1},
		{2, 1, 1},
		{61, 1, 10},
		{611, 1, 120},
		{1200, 1, 300},
		{700, 2, 300},
		{1100, 8, 1800}, // 2.4 hours
		{580, 60, 7200},
		{288, 300, 4 * 3600},       // a day
		{168, 3600, 2 * 24 * 3600}, // a week
		{400, 6 * 3600, 17 * 86400},
		{500, 2 * 86400, 168 * 86400},
	} {
		got := int64(labelEvery(test.bins, test.seconds*1e9)) * test.seconds
		assert.Equal(t, test.want, got, "%v", test)
		assert.LessOrEqual(t, int64(test.bins-1)*test.seconds, maxLabels*got, "%v", test)
	}
}

// TestWhole: an interval that has not ended is left out, unless it is all there is.
func TestWhole(t *testing.T) {
	s := &engine.Series{Width: 10, Bins: make([]engine.Bin, 3)}
	assert.Len(t, s.Whole(25).Bins, 2)
	assert.Len(t, s.Whole(30).Bins, 3)
	s.Bins = s.Bins[:1]
	assert.Len(t, s.Whole(5).Bins, 1)
}

// TestPageOfMadeUpRequests: they have no date.
func TestPageOfMadeUpRequests(t *testing.T) {
	f := flags{limit: "1/s", arrivals: "poisson:2/s,10s", html: "page.html", seed: 1}
	r, err := f.simulate(t.Context(), nil, nil)
	require.NoError(t, err)
	page := string(r.page(10))
	assert.NotContains(t, page, "1970")
	assert.NotContains(t, page, "UTC")
}

func TestChart(t *testing.T) {
	s := &engine.Series{Width: 1e9, Bins: []engine.Bin{{Queue: 0}, {Queue: 15}, {Queue: 30}}}
	var d document
	d.chart(s, "Waiting", []line{{"<waiting>", "blue", func(b engine.Bin) float64 { return float64(b.Queue) }}})
	for _, part := range []string{
		"— &lt;waiting&gt;</b>", `<polyline stroke="blue" points="60,190 455,95 850,0 "/>`,
		`y="195" text-anchor="end">0</text>`, `y="5" text-anchor="end">30</text>`, `<text x="850" y="212" text-anchor="middle">0:00:02</text>`,
	} {
		assert.Contains(t, d.String(), part)
	}
	d.chart(&engine.Series{Width: 1e9}, "Nothing", nil) // needs no bins
}

func TestFiguresOfAnAxis(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 12: "12", 0.25: "0.25", 1234: "1,234", 1e6: "1,000,000", 2.5: "2.5"} {
		assert.Equal(t, want, figure(n))
	}
	for least, want := range map[float64]float64{0: 0.001, 0.11: 0.2, 1: 1, 1.01: 2, 2.5: 5, 49: 50, 51: 100, 7e6: 1e7} {
		assert.InEpsilon(t, want, roundStep(least), 1e-9)
	}
}
