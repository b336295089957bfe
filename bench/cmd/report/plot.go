package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Ours is dark and thick in every plot; the rivals follow in the benchmark's order.
var (
	ourColors   = []color.Color{rgb(0x0b3d91), rgb(0x3f8efc), rgb(0x00a6a6), rgb(0x7b2cbf)}
	rivalColors = []color.Color{
		rgb(0xd1495b), rgb(0xedae49), rgb(0x66a182), rgb(0x8d6a9f), rgb(0x6b7280), rgb(0xa47148), rgb(0xc9ada7), rgb(0x2f3e46),
	}
	good, bad, neutral = rgb(0x2a9d4a), rgb(0xd1495b), rgb(0xb8c0cc)
)

func rgb(v uint32) color.Color {
	return color.RGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
}

// family is a plot of bars: some measurements side by side.
type family struct {
	name, title  string
	measurements []string
	unit         string
}

var families = []family{
	{"bars-concurrency", "Concurrency limiters", []string{"try", "try-all-cores", "acquire", "handover-16", "handover-1000"}, "ns/op"},
	{"bars-rate", "Rate limiters", []string{"rate-try-1ms", "rate-all-cores-1ms", "rate-acquire-1ms", "rate-refused", "window"}, "ns/op"},
	{"bars-channel", "Channels of 128 places", []string{"channel-1", "channel-4", "channel-64"}, "ns/op"},
	{"bars-pipe", "Pipes of 64 KiB", []string{"pipe-1", "pipe-512", "pipe-4096", "pipe-32768", "pipe-262144"}, "ns/op"},
	{"bars-throttled", "A throttled 32 KiB write", []string{"throttled-write"}, "ns/op"},
	{"bars-pool", "Worker pools", []string{"pool", "pool-round-trip"}, "ns/op"},
	{"bars-idle", "100,000 idle limiters", []string{"idle"}, heap},
	{"bars-waiters", "10,000 waiters, without their stacks", []string{"waiters"}, "heap-B/waiter"},
}

// plotSet is what the plots show: the results on one kind of processor.
type plotSet struct {
	kind   kind
	cpu    string // in each title
	all    measured
	folder string
}

// newPlotSet returns the plots of the processor that was measured last.
func newPlotSet(all map[kind]measured, folder string) plotSet {
	s, latest := plotSet{folder: folder}, ""
	for _, k := range seen(all) {
		for _, res := range all[k] {
			if date := res.config["date"]; s.all == nil || date > latest {
				s.kind, s.cpu, s.all, latest = k, res.config["cpu"], all[k], date
			}
		}
	}
	return s
}

// write writes all plots. One without results stays as it was; its title says of what
// processor it is.
func (s plotSet) write() error {
	if err := s.ratios(); err != nil {
		return err
	}
	for _, f := range families {
		if err := s.family(f); err != nil {
			return err
		}
	}
	for _, m := range measurements() {
		if s.all[m.name] != nil && m.curve != nil {
			if err := s.curve(m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s plotSet) file(name string) string { return filepath.Join(s.folder, name+".svg") }

// bar is a horizontal bar. One without a label is a gap.
type bar struct {
	label string
	value float64
	text  string // beside it
	color color.Color
	mark  float64 // a line across it, at this value; 0: none
}

// ratios writes a bar for each line of the table, with its goal across.
func (s plotSet) ratios() error {
	var bars []bar
	for _, l := range goals() {
		v, ok := judge(l, s.kind, s.all)
		if !ok || l.more || l.unit != "" {
			continue
		}
		c := bad
		switch {
		case v.most == 0:
			c = neutral
		case v.met:
			c = good
		}
		bars = append(bars, bar{l.work + ", to " + l.rival, v.ratio, fmt.Sprintf("%.2f", v.ratio), c, v.most})
	}
	return plotBars("Ours to theirs; the line is the goal (less is better); "+s.cpu, "ratio", bars, s.file("ratios"))
}

func (s plotSet) family(f family) error {
	var bars []bar
	for _, name := range f.measurements {
		res := s.all[name]
		if res == nil {
			continue
		}
		if len(bars) > 0 {
			bars = append(bars, bar{})
		}
		for i, impl := range res.order() {
			v := median(res.values[sample{impl, 0, f.unit}])
			c := neutral
			if isOurs(impl) {
				c = ourColors[min(i, len(ourColors)-1)]
			}
			label := impl
			if len(f.measurements) > 1 {
				label = name + ", " + impl
			}
			bars = append(bars, bar{label, v, figure(v), c, 0})
		}
	}
	return plotBars(f.title+" (less is better); "+s.cpu, f.unit, bars, s.file(f.name))
}

// plotBars writes horizontal bars, the first on top.
func plotBars(title, unit string, bars []bar, file string) error {
	if len(bars) == 0 {
		return nil
	}
	const pitch = 0.24 * vg.Inch
	p := newPlot(title, unit, "")
	p.X.Min = 0
	names, most := make([]string, len(bars)), 0.0
	for i, b := range bars {
		at := float64(len(bars) - 1 - i)
		names[len(bars)-1-i] = b.label
		most = max(most, b.value, b.mark)
		if b.label == "" {
			continue
		}
		c, err := plotter.NewBarChart(plotter.Values{b.value}, pitch*0.75)
		if err != nil {
			return err
		}
		c.XMin, c.Horizontal, c.Color, c.LineStyle.Width = at, true, b.color, 0
		p.Add(c)
		if b.mark > 0 {
			l, err := plotter.NewLine(plotter.XYs{{X: b.mark, Y: at - 0.45}, {X: b.mark, Y: at + 0.45}})
			if err != nil {
				return err
			}
			l.Width = vg.Points(2)
			p.Add(l)
		}
		labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: max(b.value, b.mark), Y: at}}, Labels: []string{b.text}})
		if err != nil {
			return err
		}
		labels.Offset = vg.Point{X: vg.Points(5)}
		labels.TextStyle[0].YAlign = text.YCenter
		p.Add(labels)
	}
	p.NominalY(names...)
	p.X.Max = most * 1.1
	p.Y.Min, p.Y.Max = -0.7, float64(len(bars))-0.3
	return save(p, 9*vg.Inch, pitch*vg.Length(len(bars))+1.3*vg.Inch, file)
}

// curve writes a line per implementation, both axes logarithmic.
func (s plotSet) curve(m measurement) error {
	res := s.all[m.name]
	p := newPlot(m.curve.title+"; "+s.cpu, m.curve.label, "ns per operation")
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = pointTicks(res.points), decadeTicks{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	mine, theirs, top := 0, 0, 0.0
	for _, impl := range res.order() {
		xys := plotter.XYs{}
		for _, point := range res.points {
			if v := median(res.values[sample{impl, point, "ns/op"}]); v > 0 {
				xys = append(xys, plotter.XY{X: float64(point), Y: v})
				top = max(top, v)
			}
		}
		if len(xys) == 0 {
			continue
		}
		l, dots, err := plotter.NewLinePoints(xys)
		if err != nil {
			return err
		}
		if isOurs(impl) {
			l.Color, l.Width = ourColors[mine%len(ourColors)], vg.Points(2.5)
			mine++
		} else {
			l.Color, l.Width = rivalColors[theirs%len(rivalColors)], vg.Points(1.2)
			theirs++
		}
		dots.Color, dots.Shape, dots.Radius = l.Color, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(l, dots)
		p.Legend.Add(impl, l, dots)
	}
	if top == 0 {
		return nil
	}
	// Room for the legend above the lines.
	legend := min(0.05*float64(mine+theirs), 0.45)
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
	p.Y.Max = top * math.Pow(top/p.Y.Min, legend/(1-legend))
	return save(p, 8*vg.Inch, 5*vg.Inch, s.file(m.name))
}

// save writes a plot with a white margin.
func save(p *plot.Plot, w, h vg.Length, file string) error {
	const margin = 0.12 * vg.Inch
	svg := vgsvg.New(w, h)
	page := draw.New(svg)
	page.SetColor(color.White)
	page.Fill(page.Path())
	p.Draw(draw.Crop(page, margin, -margin, margin, -margin))
	var out bytes.Buffer
	if _, err := svg.WriteTo(&out); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// newPlot returns an empty plot.
func newPlot(title, x, y string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	return p
}

// pointTicks are ticks at the points of a curve.
type pointTicks []int

// Ticks implements plot.Ticker.
func (ps pointTicks) Ticks(_, _ float64) []plot.Tick {
	ticks := make([]plot.Tick, len(ps))
	for i, p := range ps {
		ticks[i] = plot.Tick{Value: float64(p), Label: short(p)}
	}
	return ticks
}

// short returns n as people write it: 4Ki, 100k.
func short(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "Mi"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "Ki"
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}

// decadeTicks are ticks at 1, 2, 5 of each power of ten.
type decadeTicks struct{}

// Ticks implements plot.Ticker.
func (decadeTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := decade * m; v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
			}
		}
	}
	return ticks
}
