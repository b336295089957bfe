package main

import (
	"cmp"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var colors = []color.Color{
	color.RGBA{R: 0x1b, G: 0x4f, B: 0x9c, A: 0xff},
	color.RGBA{R: 0xc8, G: 0x5a, B: 0x12, A: 0xff},
	color.RGBA{R: 0x3a, G: 0x8a, B: 0x3a, A: 0xff},
	color.RGBA{R: 0x90, G: 0x90, B: 0x90, A: 0xff},
}

// figure is one plot: a value of each course over time.
type figure struct {
	file, title, unit string
	most              float64 // what is above is drawn there; 0: no bound
	lines             []values
	bound             func(t time.Duration) float64 // drawn dashed; nil: none
	unlimited         bool                          // the course without a limit, too
}

// values are one of the lines of a course.
type values struct {
	name string // beside the algorithm's
	of   func(course) []float64
	thin bool
}

var figures = []figure{
	{
		file: "limits", title: "Limits", unit: "limit", most: 300,
		lines: []values{{of: func(c course) []float64 { return c.limits }}},
		bound: func(t time.Duration) float64 { return float64(slots(t)) },
	},
	{
		file: "goodput", title: "Answers in time", unit: "a second", unlimited: true,
		lines: []values{{of: func(c course) []float64 { return c.good }}},
		bound: capacity,
	},
	{
		file: "refused", title: "Requests refused", unit: "a second",
		lines: []values{{of: func(c course) []float64 { return c.refused }}},
		bound: func(t time.Duration) float64 { return max(rate(t)-capacity(t), 0) },
	},
	{
		file: "latency", title: "Latency", unit: "seconds", most: 2 * patient.Seconds(), unlimited: true,
		lines: []values{
			{name: " p50", of: func(c course) []float64 { return c.p50 }, thin: true},
			{name: " p99", of: func(c course) []float64 { return c.p99 }},
		},
	},
}

// draw writes the figures into folder.
func draw(folder, name string, courses []course) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range figures {
		if err := f.draw(filepath.Join(folder, f.file+"-"+name+".svg"), name, courses); err != nil {
			return err
		}
	}
	return nil
}

func (f figure) draw(file, name string, courses []course) error {
	p := newPlot(f.title+", "+name+" service times", f.unit)
	if f.bound != nil {
		bound := make([]float64, len(courses[0].times))
		for i, t := range courses[0].times {
			bound[i] = f.bound(seconds(t))
		}
		line, err := add(p, "server", courses[0].times, bound, math.Inf(1))
		if err != nil {
			return err
		}
		line.Dashes, line.Width = []vg.Length{vg.Points(5), vg.Points(3)}, vg.Points(1.5)
	}
	for i, c := range courses {
		if c.algorithm == noLimit && !f.unlimited {
			continue
		}
		for _, v := range f.lines {
			line, err := add(p, c.algorithm+v.name, c.times, v.of(c), cmp.Or(f.most, math.Inf(1)))
			if err != nil {
				return err
			}
			line.Color, line.Width = colors[i], vg.Points(1.2)
			if v.thin {
				line.Width = vg.Points(0.6)
			}
		}
	}
	if f.most > 0 && f.unlimited { // the line at the top says "or more"
		p.Y.Max = f.most
		p.Legend.Left, p.Legend.YOffs = false, -vg.Points(12)
	}
	return p.Save(vg.Points(640), vg.Points(320), file)
}

func newPlot(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", y
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// add adds a line; what is above most is drawn there.
func add(p *plot.Plot, name string, x, y []float64, most float64) (*plotter.Line, error) {
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: x[i], Y: min(y[i], most)}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	p.Add(line)
	p.Legend.Add(name, line)
	return line, nil
}
