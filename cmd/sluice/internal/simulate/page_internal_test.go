package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// TestPage: the page has the charts and the report. Clients choose keys, and a page is opened in a browser.
func TestPage(t *testing.T) {
	f := flags{limit: "1/s", key: "agent", html: "page.html", top: 10}
	line := `192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "<script>alert(1)</script>"` + "\n"
	r, err := f.simulate(nil, strings.NewReader(strings.Repeat(line, 9)))
	require.NoError(t, err)
	page := r.page(10)
	assert.NotContains(t, page, "<script")
	assert.Contains(t, page, `<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>8</td><td><i style="width: 240px"></i></td>`)
	assert.Contains(t, page, "rejected          8   88.89 %")
	assert.Contains(t, page, "Requests per second: <b")
	f = flags{limit: "1/s", arrivals: "constant:1/s,1h", html: "page.html"}
	r, err = f.simulate(nil, nil)
	require.NoError(t, err)
	assert.Contains(t, r.page(10), `Requests per second, mean of 8 s: <b style="color: #b4bac0">— arrived in the busiest second</b>`)
}

func TestChart(t *testing.T) {
	s := &engine.Series{Width: 1e9, Bins: []engine.Bin{{Queue: 0}, {Queue: 15}, {Queue: 28}}}
	var b strings.Builder
	drawChart(&b, s, "Waiting", []line{{"waiting", "blue", func(b engine.Bin) float64 { return float64(b.Queue) }}})
	for _, part := range []string{
		"— waiting</b>", `<polyline stroke="blue" points="60,190 455,88.2 850,0 "/>`,
		`y="195" text-anchor="end">0</text>`, `y="5" text-anchor="end">28</text>`, `<text x="850" y="212" text-anchor="middle">2s</text>`,
	} {
		assert.Contains(t, b.String(), part)
	}
	drawChart(&b, &engine.Series{Width: 1e9}, "Nothing", nil) // needs no bins
}
