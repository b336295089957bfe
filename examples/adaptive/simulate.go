package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/adaptive"
	"github.com/sluice-go/sluice/internal/simulation"
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

// rate is how many requests come in a second.
func rate(t time.Duration) float64 {
	full := 100 / mean.Seconds()
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
	name string
	of   func() adaptive.Algorithm // nil: no limit
}

var algorithms = []algorithm{
	{"gradient", adaptive.Gradient{}.New},
	{"vegas", adaptive.Vegas{}.New},
	{"aimd", adaptive.AIMD{Timeout: patient / 2}.New},
	{"no limit", nil},
}

// course is how one simulation went.
type course struct {
	algorithm string
	times     []float64 // of slices, in seconds
	limits    []float64 // mean
	p99       []float64 // in seconds
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
	var latencies []time.Duration
	sum, end := 0.0, slice
	config := simulation.Config{
		Min: 1, Max: 2000, Initial: 20,
		Slots: slots, Service: d.of, Rate: rate, Seed: seed, Timeout: patient,
		Observe: func(t time.Duration, s simulation.Sample, limit int) {
			if t >= end {
				c.times = append(c.times, (end - slice/2).Seconds())
				c.limits = append(c.limits, sum/float64(len(latencies)))
				c.p99 = append(c.p99, quantile(latencies, 0.99).Seconds())
				latencies, sum, end = latencies[:0], 0, end+slice
			}
			sum += float64(limit)
			latencies = append(latencies, s.Duration)
		},
	}
	if a.of != nil {
		learner := a.of()
		config.Next = func(s simulation.Sample) float64 { return learner.Next(adaptive.Sample(s)) }
	}
	return c, simulation.Run(config, length, 0)
}

// quantile returns the latency that a share of all stays within.
func quantile(latencies []time.Duration, share float64) time.Duration {
	if len(latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(latencies))
	return sorted[int(share*float64(len(sorted)-1))].Round(100 * time.Microsecond)
}
