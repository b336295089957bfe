package simulate

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

//go:embed page.html
var pageText string

// page returns a page with all there is to see, which needs nothing from elsewhere.
func (r *result) page(top int) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{"round": round, "percent": percent}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	v := r.report(top)
	var plots []template.HTML
	for _, draw := range []func() (*plot.Plot, error){r.rates, r.queue, func() (*plot.Plot, error) { return bars(v.Keys) }} {
		p, err := draw()
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		svg, err := drawn(p)
		if err != nil {
			return nil, err
		}
		plots = append(plots, svg)
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"What": r.what, "Report": v, "Plots": plots,
		"From": time.Unix(0, r.base).UTC().Format("2006-01-02 15:04:05"), "MadeUp": r.base == 0,
	})
	return b.Bytes(), err
}

func percent(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
}

var (
	blue  = color.RGBA{0x1f, 0x6f, 0xb4, 0xff}
	grey  = color.RGBA{0x9a, 0xa0, 0xa6, 0xff}
	red   = color.RGBA{0xc8, 0x3c, 0x32, 0xff}
	green = color.RGBA{0x2e, 0x8b, 0x57, 0xff}
)

// line draws a figure of the bins.
func (r *result) line(p *plot.Plot, name string, c color.Color, of func(bin) float64) error {
	s := r.main.series
	points := make(plotter.XYs, len(s.bins))
	for i, b := range s.bins {
		points[i] = plotter.XY{X: float64(i) * float64(s.width) / 1e9, Y: of(b)}
	}
	l, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	l.StepStyle = plotter.PostStep
	l.Color, l.Width = c, vg.Points(1.2)
	p.Add(l)
	p.Legend.Add(name, l)
	return nil
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.Legend.Top = true
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	return p
}

// rates shows arrivals against grants and rejections.
func (r *result) rates() (*plot.Plot, error) {
	p := newPlot("Requests per second", "seconds since the first request", "per second")
	width := float64(r.main.series.width) / 1e9
	for _, l := range []struct {
		name string
		c    color.Color
		of   func(bin) float64
	}{
		{"arrived", grey, func(b bin) float64 { return float64(b.arrivals) / width }},
		{"granted", green, func(b bin) float64 { return float64(b.grants) / width }},
		{"rejected", red, func(b bin) float64 { return float64(b.rejections) / width }},
	} {
		if err := r.line(p, l.name, l.c, l.of); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// queue shows how many waited.
func (r *result) queue() (*plot.Plot, error) {
	p := newPlot("Requests that wait", "seconds since the first request", "waiting")
	return p, r.line(p, "waiting", blue, func(b bin) float64 { return float64(b.queue) })
}

// bars shows the keys that were hit most; nil: there are none.
func bars(keys []key) (*plot.Plot, error) {
	var values plotter.Values
	var names []string
	for _, k := range keys {
		if k.Rejected > 0 && k.name() != "" {
			values = append(values, float64(k.Rejected))
			name := []rune(k.name())
			names = append(names, string(name[:min(len(name), 24)]))
		}
	}
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // nothing to draw is no error
	}
	p := newPlot("Rejected, by key", "", "requests")
	b, err := plotter.NewBarChart(values, vg.Points(24))
	if err != nil {
		return nil, err
	}
	b.Color, b.LineStyle.Width = red, 0
	p.Add(b)
	p.NominalX(names...)
	p.X.Tick.Label.Rotation = 0.5
	p.X.Tick.Label.XAlign = -1
	return p, nil
}

// drawn returns a plot as it stands in a page.
func drawn(p *plot.Plot) (template.HTML, error) {
	c := vgsvg.New(22*vg.Centimeter, 8*vg.Centimeter)
	p.Draw(plotDraw(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	svg := b.Bytes()
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:] // no XML declaration in the middle of a page
	}
	return template.HTML(svg), nil //nolint:gosec // the library escapes what it writes
}
