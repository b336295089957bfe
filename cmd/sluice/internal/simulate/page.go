package simulate

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-analyze/charts"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

//go:embed page.css
var style string

// page returns a page with the report and charts, which needs nothing from elsewhere.
func (r *result) page(top int) ([]byte, error) {
	v := r.report(top)
	s := r.main.Series
	width := float64(s.Width) / 1e9
	rates, err := chart(s, "Requests per second", []line{
		{"arrived", grey, func(b engine.Bin) float64 { return float64(b.Arrivals) / width }},
		{"granted", green, func(b engine.Bin) float64 { return float64(b.Grants) / width }},
		{"rejected", red, func(b engine.Bin) float64 { return float64(b.Rejections) / width }},
	})
	if err != nil {
		return nil, err
	}
	queue, err := chart(s, "Waiting requests", []line{{"waiting", blue, func(b engine.Bin) float64 { return float64(b.Queue) }}})
	if err != nil {
		return nil, err
	}
	bars, err := rejections(v.Keys)
	if err != nil {
		return nil, err
	}
	var d document
	d.head(r)
	d.summary(r, v)
	d.add("%v\n%v\n%v\n", rates, queue, bars)
	d.keys(v.Keys)
	d.flows(v.Flows)
	for _, note := range v.Notes {
		d.add("<p class=\"note\">Note: %v.</p>\n", note)
	}
	d.add("<p class=\"note\">Played in virtual time by sluice simulate.</p>\n</html>\n")
	return d.Bytes(), nil
}

var (
	grey  = charts.ColorRGB(0x9a, 0xa0, 0xa6)
	green = charts.ColorRGB(0x2e, 0x8b, 0x57)
	red   = charts.ColorRGB(0xc8, 0x3c, 0x32)
	blue  = charts.ColorRGB(0x1f, 0x6f, 0xb4)
)

// line is one line of a chart.
type line struct {
	name  string
	color charts.Color
	value func(engine.Bin) float64
}

// chart draws lines over the time since the first request, in hours, minutes and seconds.
func chart(s *engine.Series, title string, lines []line) (markup, error) {
	values := make([][]float64, len(lines))
	names := make([]string, len(lines))
	colors := make([]charts.Color, len(lines))
	for i, l := range lines {
		for _, b := range s.Bins {
			values[i] = append(values[i], l.value(b))
		}
		if len(s.Bins) == 0 {
			values[i] = []float64{0}
		}
		names[i], colors[i] = l.name, l.color
	}
	instants := make([]string, len(values[0]))
	for i := range instants {
		at := int64(i) * s.Width / int64(time.Second)
		instants[i] = fmt.Sprintf("%d:%02d:%02d", at/3600, at/60%60, at%60)
	}
	o := charts.NewLineChartOptionWithData(values)
	o.Theme = charts.GetTheme(charts.ThemeLight).WithSeriesColors(colors)
	o.Title.Text, o.Legend.SeriesNames = title, names
	o.Symbol.Shape, o.LineStrokeWidth = charts.SymbolNone, 1.2
	o.XAxis.Labels, o.XAxis.LabelCount = instants, 8
	o.YAxis = []charts.YAxisOption{{Min: new(0.0)}}
	p := painter(300)
	return svg(p, p.LineChart(o))
}

// rejections draws the keys with the most rejections; "" if there are none.
func rejections(keys []key) (markup, error) {
	var counts []float64
	var names []string
	for _, k := range slices.Backward(keys) { // the first bar is at the bottom
		if k.Rejected > 0 && k.name() != "" {
			name := []rune(k.name())
			counts, names = append(counts, float64(k.Rejected)), append(names, string(name[:min(len(name), 40)]))
		}
	}
	if len(counts) == 0 {
		return "", nil
	}
	o := charts.NewBarChartOptionWithData([][]float64{counts})
	o.Theme = charts.GetTheme(charts.ThemeLight).WithSeriesColors([]charts.Color{red})
	o.Horizontal = true
	o.Title.Text = "Rejected, by key"
	o.CategoryAxis.Labels = names
	o.ValueAxis = []charts.ValueAxisOption{{Min: new(0.0)}}
	o.SeriesList[0].Label.Show = new(true)
	o.SeriesList[0].Label.ValueFormatter = func(n float64) string { return strconv.Itoa(int(math.Round(n))) }
	p := painter(110 + 24*len(names))
	return svg(p, p.BarChart(o))
}

func painter(height int) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: 880, Height: height})
}

// svg returns what was drawn, if err is nil, as it stands in a page.
func svg(p *charts.Painter, err error) (markup, error) {
	if err != nil {
		return "", err
	}
	b, err := p.Bytes()
	return markup(b), err // the library escapes what it writes
}
