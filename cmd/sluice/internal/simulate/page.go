package simulate

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/site"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

//go:embed page.css
var style string

// glue draws the chart of the playground. It is a module, with the files of the playground before it.
const glue = `
const element = document.querySelector(".chart"), readout = document.querySelector(".readout");
const chart = new Chart(element, (at) => { readout.textContent = describe(chart.cursor(at)); });
new ResizeObserver(() => chart.draw(output, output.results[0], scales(output, Chart.most(element)))).observe(element);
`

// page returns a self-contained page with the report and charts. It does not use html/template, because templates call methods
// by name: the linker would keep every method of every package, which makes the program half as large again.
func (r *result) page(top int) string {
	v, s := r.report(top), r.main.Series
	output := struct { // the same form as the playground's
		Width   float64 `json:"width"`
		Results [1]struct {
			Bins []engine.Bin `json:"bins"`
		} `json:"results"`
	}{Width: time.Duration(s.Width).Seconds()}
	output.Results[0].Bins = s.Bins
	data, err := json.Marshal(output)
	if err != nil {
		panic(err) // it is numbers
	}
	var b strings.Builder
	what := html.EscapeString(r.what)
	_, _ = fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice simulate: %s</title>
<style>
%s%s</style>
<h1>What <code>%s</code> would have done</h1>
<div class="chart" tabindex="0" role="img" aria-label="Chart of the requests over time: %d of %d were granted, %d rejected. The arrow keys move through the time."></div>
<p class="readout" aria-live="polite"></p>
<noscript><p>The chart needs JavaScript. The figures below do not.</p></noscript>
`, what, siteFile("chart.css"), style, what, v.Granted, v.Requests, v.Rejected)
	drawKeys(&b, v.Keys)
	_, _ = fmt.Fprintf(&b, "<pre>%s</pre>\n", html.EscapeString(v.text(r.what)))
	_, _ = fmt.Fprintf(&b, "<script type=\"module\">\n%s\n%s\nconst output = %s;%s</script>\n</html>\n", siteFile("format.js"), siteFile("chart.js"), data, glue)
	return b.String()
}

// siteFile returns a file of the playground, without the lines that import others.
func siteFile(name string) string {
	text, err := site.Files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "import ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// drawKeys draws a bar for each key, which is as long as its share of the most rejections.
func drawKeys(b *strings.Builder, keys []engine.KeyRow) {
	if len(keys) == 0 || keys[0].Rejected == 0 { // they are sorted by it
		return
	}
	b.WriteString("<figure>\n<figcaption>Rejected by key</figcaption>\n<table>\n")
	for _, k := range keys {
		if k.Rejected == 0 {
			break
		}
		_, _ = fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td><i style=\"width: %dpx\"></i></td></tr>\n",
			html.EscapeString(k.Name.String()), thousands(k.Rejected), 240*k.Rejected/keys[0].Rejected)
	}
	b.WriteString("</table>\n</figure>\n")
}
