package main

import (
	"image/color"
	"os"
	"path/filepath"

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

// draw writes the limits and the latencies over time into folder.
func draw(folder, name string, courses []course) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	limits := newPlot("Limits, "+name+" service times", "limit")
	capacity := make(plotter.XYs, len(courses[0].times))
	for i, t := range courses[0].times {
		capacity[i] = plotter.XY{X: t, Y: float64(slots(seconds(t)))}
	}
	line, err := plotter.NewLine(capacity)
	if err != nil {
		return err
	}
	line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	line.Width = vg.Points(1.5)
	limits.Add(line)
	limits.Legend.Add("slots", line)

	latencies := newPlot("Latency in the 99th percentile, "+name+" service times", "seconds")
	for i, c := range courses {
		if c.algorithm != "no limit" {
			if err := add(limits, c.algorithm, i, c.times, c.limits, 300); err != nil {
				return err
			}
		}
		if err := add(latencies, c.algorithm, i, c.times, c.p99, 2*patient.Seconds()); err != nil {
			return err
		}
	}
	latencies.Y.Max = 2 * patient.Seconds()
	if err := limits.Save(vg.Points(640), vg.Points(320), filepath.Join(folder, "limits-"+name+".svg")); err != nil {
		return err
	}
	return latencies.Save(vg.Points(640), vg.Points(320), filepath.Join(folder, "latency-"+name+".svg"))
}

func newPlot(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "seconds", y
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// add draws a line; what is above most is drawn there.
func add(p *plot.Plot, name string, i int, x, y []float64, most float64) error {
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: x[i], Y: min(y[i], most)}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = colors[i], vg.Points(1.2)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}
