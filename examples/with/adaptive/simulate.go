package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/adaptive/simulation"
)

const (
	length  = 120 * time.Second
	mean    = 20 * time.Millisecond // of the service times
	patient = 500 * time.Millisecond
	slice   = time.Second // of a plot
)

// slots is what the server can work on at once.
func slots(t time.Duration) int {
	switch {
	case t < length/3:
		return 100
	case t < 2*length/3:
		return 50
	}
	return 150
}

// capacity is how many requests the server can answer in a second.
func capacity(t time.Duration) float64 { return float64(slots(t)) / mean.Seconds() }

// rate is how many requests come in a second.
func rate(t time.Duration) float64 {
	full := capacity(0)
	if t < length/6 {
		return full * (0.2 + 2.8*t.Seconds()/(length/6).Seconds())
	}
	return 3 * full
}

type distribution struct {
	name string
	of   func(time.Duration, *rand.Rand) time.Duration
}

var distributions = []distribution{
	{"exponential", simulation.Exponential(mean)},
	{"bimodal", simulation.Bimodal(mean/2, mean/2*11, 0.1)},
}

type algorithm struct {
	name    string
	of      func() adaptive.Algorithm // nil: no limit
	overdue time.Duration             // what takes longer counts as dropped; 0: nothing does
}

const noLimit = "no limit"

var algorithms = []algorithm{
	{name: "gradient", of: adaptive.Gradient{}.New},
	{name: "vegas", of: adaptive.Vegas{}.New},
	{name: "aimd", of: adaptive.AIMD{Timeout: patient / 2}.New, overdue: patient / 2},
	{name: noLimit},
}

// course is how one simulation went, slice by slice.
type course struct {
	algorithm string
	times     []float64 // the middles of the slices, in seconds
	limits    []float64 // mean
	good      []float64 // answers in time, a second
	refused   []float64 // requests, a second
	p50, p99  []float64 // of all answers, in seconds
}

// simulate runs each algorithm with each distribution.
func simulate(w io.Writer, s settings) error {
	fmt.Fprintf(w, "%-12s %-9s %9s %9s %9s %8s %8s\n", "service", "limit by", "good/s", "late/s", "refused/s", "p50", "p99")
	for _, d := range distributions {
		var courses []course
		for _, a := range algorithms {
			c, r := run(a, d, s.seed)
			courses = append(courses, c)
			fmt.Fprintf(w, "%-12s %-9s %9.0f %9.0f %9.0f %8v %8v\n", d.name, a.name,
				float64(r.Good)/length.Seconds(), float64(r.Late)/length.Seconds(), float64(r.Rejected)/length.Seconds(),
				quantile(r.Latencies, 0.5), quantile(r.Latencies, 0.99))
		}
		if s.folder != "" {
			if err := draw(s.folder, d.name, courses); err != nil {
				return err
			}
		}
	}
	return nil
}

// run simulates one algorithm.
func run(a algorithm, d distribution, seed uint64) (course, simulation.Result) {
	c := course{algorithm: a.name}
	p := part{end: slice}
	at := func(t time.Duration) {
		for t >= p.end {
			c.add(&p)
		}
	}
	config := simulation.Config{
		Min: 1, Max: 2000, Initial: 20,
		Slots: slots, Service: d.of, Rate: rate, Seed: seed, Timeout: patient,
		Observe: func(t time.Duration, s simulation.Sample, limit int) {
			at(t)
			p.limits += float64(limit)
			p.latencies = append(p.latencies, s.Duration)
			if !s.Dropped {
				p.good++
			}
		},
		Refused: func(t time.Duration) {
			at(t)
			p.refused++
		},
	}
	if a.of != nil {
		config.Algorithm = a.of()
		config.Overdue = a.overdue
	}
	result := simulation.Run(config, length, 0)
	return c, result
}

// part is what is known of the present slice.
type part struct {
	end           time.Duration
	limits        float64 // the sum, one for each answer
	latencies     []time.Duration
	good, refused int
}

// add adds what is known of a slice, and begins the next. One without an answer has no limit and
// no latency to tell: it keeps those before it.
func (c *course) add(p *part) {
	c.times = append(c.times, (p.end - slice/2).Seconds())
	c.good = append(c.good, float64(p.good)/slice.Seconds())
	c.refused = append(c.refused, float64(p.refused)/slice.Seconds())
	if n := len(p.latencies); n > 0 {
		c.limits = append(c.limits, p.limits/float64(n))
		c.p50 = append(c.p50, quantile(p.latencies, 0.5).Seconds())
		c.p99 = append(c.p99, quantile(p.latencies, 0.99).Seconds())
	} else {
		c.limits, c.p50, c.p99 = again(c.limits), again(c.p50), again(c.p99)
	}
	*p = part{end: p.end + slice, latencies: p.latencies[:0]}
}

// again returns x with its last value once more.
func again(x []float64) []float64 {
	if len(x) == 0 {
		return []float64{0}
	}
	return append(x, x[len(x)-1])
}

// quantile returns the latency that a share of all stays within.
func quantile(latencies []time.Duration, share float64) time.Duration {
	if len(latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(latencies))
	return sorted[int(share*float64(len(sorted)-1))].Round(100 * time.Microsecond)
}
