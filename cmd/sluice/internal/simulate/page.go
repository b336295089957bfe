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

// page returns a self-contained page with the report and charts.
func (r *result) page(top int) ([]byte, error) {
	v := r.report(top)
	s := r.main.Series.Whole(r.end)
	width := float64(s.Width) / 1e9
	rates, err := chart(s, "Requests per second", []line{
		{"arrived", grey, func(b engine.Bin) float64 { return float64(b.Arrivals) / width }},
		{"rejected", red, func(b engine.Bin) float64 { return float64(b.Rejections) / width }},
		{"granted", green, func(b engine.Bin) float64 { return float64(b.Grants) / width }}, // above the others
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
	d.add("<div>%v\n%v\n%v</div>\n", rates, queue, bars)
	d.keys(v.Keys)
	d.flows(v.Flows)
	if len(s.Bins) < len(r.main.Series.Bins) {
		d.add("<p class=\"note\">Note: the charts end with the last whole interval of %v.</p>\n", time.Duration(s.Width))
	}
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
	step := labelEvery(len(values[0]), s.Width)
	for i := range values { // up to the next label: the library puts labels at equal distances
		for (len(values[i])-1)%step != 0 {
			values[i] = append(values[i], charts.GetNullValue())
		}
	}
	instants := make([]string, len(values[0]))
	for i := range instants { // the library draws some of them at equal distances, and may take the text of the bin behind
		at := int64(i/step*step) * s.Width / int64(time.Second)
		instants[i] = fmt.Sprintf("%d:%02d:%02d", at/3600, at/60%60, at%60)
	}
	o := charts.NewLineChartOptionWithData(values)
	o.Theme = charts.GetTheme(charts.ThemeLight).WithSeriesColors(colors)
	o.Title.Text, o.Legend.SeriesNames = title, names
	o.Symbol.Shape, o.LineStrokeWidth = charts.SymbolNone, 1.2
	o.XAxis.Labels, o.XAxis.LabelCount = instants, (len(instants)-1)/step // besides the first
	if step == 1 {
		o.XAxis.LabelCount = len(instants)
	}
	o.YAxis = []charts.YAxisOption{{Min: new(0.0)}}
	o.ValueFormatter = figure
	p := painter(300)
	return svg(p, p.LineChart(o))
}

// figure writes a number of an axis, or of a bar.
func figure(n float64) string {
	if n != math.Trunc(n) {
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	return thousands(int(n))
}

// steps are round numbers of seconds between two labels.
var steps = []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 4 * 3600, 6 * 3600, 12 * 3600, 24 * 3600}

const maxLabels, minLabels = 6, 3 // besides the first

// labelEvery returns how many bins of a width are between two labels: round times of which at most maxLabels fit, and
// whole days if there are many.
func labelEvery(bins int, width int64) int {
	fits := func(step int64) bool {
		return step*1e9%width == 0 && int64(bins-1)*width <= maxLabels*step*1e9
	}
	for _, step := range steps {
		if fits(step) && step*1e9*minLabels <= max(int64(bins-1)*width, minLabels*width) {
			return int(step * 1e9 / width)
		}
	}
	const day = 24 * 3600
	for step := int64(day); step*1e9 < int64(bins)*width; step += day {
		if fits(step) {
			return int(step * 1e9 / width)
		}
	}
	return max(bins-1, 1)
}

// rejections draws the keys with the most rejections; "" if there are none.
func rejections(keys []engine.KeyRow) (markup, error) {
	var counts []float64
	var names []string
	for _, k := range slices.Backward(keys) { // the first bar is at the bottom
		if name := []rune(k.Name.String()); k.Rejected > 0 && len(name) > 0 {
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
	o.SeriesList[0].Label.ValueFormatter, o.ValueFormatter = figure, figure
	p := painter(110 + 24*len(names))
	return svg(p, p.BarChart(o))
}

func painter(height int) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: 880, Height: height})
}

// svg returns what was drawn as markup, if err is nil.
func svg(p *charts.Painter, err error) (markup, error) {
	if err != nil {
		return "", err
	}
	b, err := p.Bytes()
	return markup(b), err // the library escapes what it writes
}
