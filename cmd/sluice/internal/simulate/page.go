package simulate

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

//go:embed page.css
var style string

// page returns a self-contained page with the report and charts.
func (r *result) page(top int) []byte {
	v := r.report(top)
	s := r.main.Series.Whole(r.end)
	width := float64(s.Width) / 1e9
	var d document
	d.head(r)
	d.summary(r, v)
	d.chart(s, "Requests per second", []line{
		{"arrived", "#9aa0a6", func(b engine.Bin) float64 { return float64(b.Arrivals) / width }},
		{"rejected", "#c83c32", func(b engine.Bin) float64 { return float64(b.Rejections) / width }},
		{"granted", "#2e8b57", func(b engine.Bin) float64 { return float64(b.Grants) / width }}, // above the others
	})
	d.chart(s, "Waiting requests", []line{{"waiting", "#1f6fb4", func(b engine.Bin) float64 { return float64(b.Queue) }}})
	d.keys(v.Keys)
	d.flows(v.Flows)
	if len(s.Bins) < len(r.main.Series.Bins) {
		d.add("<p class=\"note\">Note: the charts end with the last whole interval of %v.</p>\n", time.Duration(s.Width))
	}
	for _, note := range v.Notes {
		d.add("<p class=\"note\">Note: %v.</p>\n", note)
	}
	d.add("<p class=\"note\">Played in virtual time by sluice simulate.</p>\n</html>\n")
	return d.Bytes()
}

// line is one line of a chart.
type line struct {
	name, color string
	value       func(engine.Bin) float64
}

// The size of a chart, and of the space to the left of its lines, where the numbers are.
const chartWidth, chartHeight, chartLeft = 850.0, 190.0, 60.0

// chart draws lines over the time since the first request, in hours, minutes and seconds.
func (d *document) chart(s *engine.Series, title string, lines []line) {
	most, bins := 0.0, max(len(s.Bins)-1, 1)
	for _, l := range lines {
		for _, b := range s.Bins {
			most = max(most, l.value(b))
		}
	}
	step := roundStep(most / 8)
	top := step * max(math.Ceil(most/step), 1)
	x := func(bin int) int { return int(chartLeft + (chartWidth-chartLeft)*float64(bin)/float64(bins)) }
	y := func(value float64) float64 { return math.Round(10*chartHeight*(1-value/top)) / 10 }
	d.add("<figure>\n<figcaption>%v", title)
	for _, l := range lines {
		d.add(" <b style=\"color: %v\">— %v</b>", l.color, l.name)
	}
	d.add("</figcaption>\n<svg viewBox=\"0 -10 880 230\">\n")
	for i := 0.0; i*step <= top; i++ {
		d.add("<path d=\"M%v %vH%v\"/><text x=\"%v\" y=\"%v\" text-anchor=\"end\">%v</text>\n",
			chartLeft, y(i*step), chartWidth, chartLeft-8, y(i*step)+5, figure(i*step))
	}
	for bin := 0; bin <= bins; bin += labelEvery(bins+1, s.Width) {
		at := int64(bin) * s.Width / int64(time.Second)
		d.add("<path d=\"M%v %vv5\"/><text x=\"%v\" y=\"%v\" text-anchor=\"middle\">%v</text>\n",
			x(bin), chartHeight, x(bin), chartHeight+22, fmt.Sprintf("%d:%02d:%02d", at/3600, at/60%60, at%60))
	}
	for _, l := range lines {
		d.add("<polyline stroke=\"%v\" points=\"", l.color)
		for i, b := range s.Bins {
			d.add("%v,%v ", x(i), y(l.value(b)))
		}
		d.add("\"/>\n")
	}
	d.add("</svg>\n</figure>\n")
}

// roundStep returns the least of 1, 2, 5, 10, 20, 50 and so on, or of their decimal fractions, that is at least the given one.
func roundStep(least float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(least, 1e-3))))
	for _, n := range []float64{1, 2, 5} {
		if n*unit >= least {
			return n * unit
		}
	}
	return 10 * unit
}

// figure writes a number of an axis.
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
