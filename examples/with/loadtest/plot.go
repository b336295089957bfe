package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// drawTo writes two plots over the load, side by side: goodput, and how long the slowest
// of the answers in time took.
func drawTo(file string, t test, results []result) error {
	goodput, err := over(results, fmt.Sprintf("answers in time, a second (capacity %.0f)", t.capacity()), func(r result) float64 { return r.good })
	if err != nil {
		return err
	}
	slowest, err := over(results, fmt.Sprintf("99 %% of them came within, ms (patience %.0f)", ms(t.patience)), func(r result) float64 { return ms(r.p99) })
	if err != nil {
		return err
	}
	goodput.Legend.Top = true
	canvas := vgsvg.New(24*vg.Centimeter, 10*vg.Centimeter)
	plots := [][]*plot.Plot{{goodput, slowest}}
	tiles := plot.Align(plots, draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter}, draw.New(canvas))
	for i, p := range plots[0] {
		p.Draw(tiles[0][i])
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(f)
	return errors.Join(err, f.Close())
}

// over plots a value of each limit over the load.
func over(results []result, title string, value func(result) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "load, as a multiple of the capacity"
	p.X.Scale, p.X.Min = plot.LogScale{}, loads[0]
	p.Y.Min = 0
	ticks := make([]plot.Tick, 0, len(loads))
	for _, load := range loads {
		ticks = append(ticks, plot.Tick{Value: load, Label: strconv.FormatFloat(load, 'g', 2, 64)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	lines := make(map[string]plotter.XYs)
	var order []string
	for _, r := range results {
		if lines[r.limit] == nil {
			order = append(order, r.limit)
		}
		lines[r.limit] = append(lines[r.limit], plotter.XY{X: r.load, Y: value(r)})
	}
	var all []any
	for _, name := range order {
		all = append(all, name, lines[name])
	}
	return p, plotutil.AddLinePoints(p, all...)
}
