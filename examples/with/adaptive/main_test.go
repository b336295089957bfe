package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
)

// stages are when the server is the same for a while: from 500 samples for each of its slots after
// a change, when the limit has to fit.
var stages = []struct{ from, to time.Duration }{
	{20 * time.Second, 40 * time.Second},
	{50 * time.Second, 80 * time.Second},
	{90 * time.Second, 120 * time.Second},
}

// during returns the values of a stage.
func (c course) during(from, to time.Duration, values []float64) []float64 {
	var of []float64
	for i, t := range c.times {
		if t > from.Seconds() && t < to.Seconds() {
			of = append(of, values[i])
		}
	}
	return of
}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// share returns how much of x holds.
func share(x []float64, holds func(float64) bool) float64 {
	n := 0.0
	for _, v := range x {
		if holds(v) {
			n++
		}
	}
	return n / float64(len(x))
}

// What the plots show is so.
func TestFigures(t *testing.T) {
	for _, d := range distributions {
		for _, a := range algorithms {
			if testkit.Race && a.name != "gradient" {
				continue
			}
			t.Run(d.name+" "+a.name, func(t *testing.T) {
				c, result := run(a, d, 1)
				if a.of == nil {
					assert.Greater(t, result.Late, 10*result.Good, "without a limit nearly all come late")
					return
				}
				assert.Zero(t, result.Late)
				for _, s := range stages {
					check(t, c, s.from, s.to)
				}
			})
		}
	}
}

// check looks at the course with a limit in a stage.
func check(t *testing.T, c course, from, to time.Duration) {
	t.Helper()
	good := average(c.during(from, to, c.good))
	assert.Greater(t, good, 0.92*capacity(from), "goodput from %v", from)
	assert.InDelta(t, rate(from), good+average(c.during(from, to, c.refused)), 0.02*rate(from), "all are answered in time or refused")
	p99 := slices.Max(c.during(from, to, c.p99))
	assert.Less(t, p99, patient.Seconds(), "p99 from %v", from)
	if c.algorithm == "aimd" {
		return // finds the limit at which work is late, and not the server's
	}
	assert.Less(t, p99, patient.Seconds()/2, "p99 from %v", from)
	n := float64(slots(from))
	limits := c.during(from, to, c.limits)
	assert.InDelta(t, n, average(limits), 0.2*n, "mean limit from %v", from)
	within := share(limits, func(l float64) bool { return l > 0.8*n && l < 1.2*n })
	assert.Greater(t, within, 0.8, "seconds with a limit within 20 %% of the server's slots, from %v", from)
	assert.Less(t, average(c.during(from, to, c.p50)), mean.Seconds(), "most are answered without waiting")
}

func TestDraws(t *testing.T) {
	folder := t.TempDir()
	c := course{algorithm: "gradient"}
	p := part{end: slice}
	c.add(&p)
	p.latencies, p.good, p.limits = append(p.latencies, time.Second), 1, 20
	c.add(&p)
	assert.Equal(t, course{
		algorithm: "gradient", times: []float64{0.5, 1.5}, limits: []float64{0, 20},
		good: []float64{0, 1}, refused: []float64{0, 0}, p50: []float64{0, 1}, p99: []float64{0, 1},
	}, c)
	require.NoError(t, draw(folder, "exponential", []course{c}))
	for _, f := range figures {
		svg, err := os.ReadFile(filepath.Join(folder, f.file+"-exponential.svg"))
		require.NoError(t, err)
		assert.Contains(t, string(svg), "<svg")
		assert.Contains(t, string(svg), "gradient")
	}
}
