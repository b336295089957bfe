package simulate

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

//go:embed page.css
var style string

// page returns a self-contained page with the report and charts. It does not use html/template, because templates call methods
// by name: the linker would keep every method of every package, which makes the program half as large again.
func (r *result) page(top int) string {
	v, s := r.report(top), r.main.Series
	width := float64(s.Width) / 1e9
	var b strings.Builder
	what := html.EscapeString(r.what)
	_, _ = fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice simulate: %s</title>
<style>
%s</style>
<h1>What <code>%s</code> would have done</h1>
`, what, style, what)
	rates := []line{
		{"arrived", "#9aa0a6", func(b engine.Bin) float64 { return float64(b.Arrivals) / width }},
		{"rejected", "#c83c32", func(b engine.Bin) float64 { return float64(b.Rejections) / width }},
		{"granted", "#2e8b57", func(b engine.Bin) float64 { return float64(b.Grants) / width }}, // above the others
	}
	title := "Requests per second:"
	if width > 1 {
		title = fmt.Sprintf("Requests per second, mean of %v s:", width)
		rates = append([]line{{"arrived in the busiest second", "#b4bac0", func(b engine.Bin) float64 { return float64(b.Peak) }}}, rates...)
	}
	drawChart(&b, s, title, rates)
	drawChart(&b, s, "Waiting requests:", []line{{"at most", "#1f6fb4", func(b engine.Bin) float64 { return float64(b.Queue) }}})
	drawKeys(&b, v.Keys)
	_, _ = fmt.Fprintf(&b, "<pre>%s</pre>\n</html>\n", html.EscapeString(v.text(r.what)))
	return b.String()
}

// line is one line of a chart.
type line struct {
	name, color string
	value       func(engine.Bin) float64
}

// The size of a chart, and of the space to the left of its lines, where the numbers are.
const chartWidth, chartHeight, chartLeft = 850.0, 190.0, 60.0

// drawChart draws lines over the time since the first request.
func drawChart(b *strings.Builder, s *engine.Series, title string, lines []line) {
	const parts = 4 // of each axis
	most, last := 0.0, max(len(s.Bins)-1, 1)
	for _, l := range lines {
		for _, bin := range s.Bins {
			most = max(most, l.value(bin))
		}
	}
	most = max(math.Ceil(most/parts)*parts, parts)
	x := func(share float64) float64 { return math.Round(chartLeft + (chartWidth-chartLeft)*share) }
	y := func(share float64) float64 { return math.Round(10*chartHeight*(1-share)) / 10 }
	add := func(format string, args ...any) { _, _ = fmt.Fprintf(b, format, args...) }
	add("<figure>\n<figcaption>%s", title)
	for _, l := range lines {
		add(" <b style=\"color: %s\">— %s</b>", l.color, l.name)
	}
	add("</figcaption>\n<svg viewBox=\"0 -10 910 230\">\n")
	for i := range parts + 1 {
		share := float64(i) / parts
		at := time.Duration(share * float64(last) * float64(s.Width)).Round(time.Second)
		add("<path d=\"M%v %vH%v\"/><text x=\"%v\" y=\"%v\" text-anchor=\"end\">%v</text>\n",
			chartLeft, y(share), chartWidth, chartLeft-8, y(share)+5, thousands(int(most*share)))
		add("<path d=\"M%v %vv5\"/><text x=\"%v\" y=\"%v\" text-anchor=\"middle\">%v</text>\n", x(share), chartHeight, x(share), chartHeight+22, at)
	}
	for _, l := range lines {
		add("<polyline stroke=\"%s\" points=\"", l.color)
		for i, bin := range s.Bins {
			add("%v,%v ", x(float64(i)/float64(last)), y(l.value(bin)/most))
		}
		add("\"/>\n")
	}
	add("</svg>\n</figure>\n")
}

// drawKeys draws a bar for each key, which is as long as its share of the most rejections.
func drawKeys(b *strings.Builder, keys []engine.KeyRow) {
	if len(keys) == 0 || keys[0].Rejected == 0 { // they are sorted by it
		return
	}
	b.WriteString("<figure>\n<figcaption>Rejected by key</figcaption>\n<table>\n")
	for _, k := range keys {
		_, _ = fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td><i style=\"width: %dpx\"></i></td></tr>\n",
			html.EscapeString(k.Name.String()), thousands(k.Rejected), 240*k.Rejected/keys[0].Rejected)
	}
	b.WriteString("</table>\n</figure>\n")
}
