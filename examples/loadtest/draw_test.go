package main

import (
	"fmt"
	"math"
	"strings"
)

const style = `
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.grid { stroke: #d0d7de }
path.line { fill: none; stroke-width: 1.8 }
.c0 { stroke: #656d76; fill: #656d76 } .c1 { stroke: #cf222e; fill: #cf222e } .c2 { stroke: #0969da; fill: #0969da }
.c3 { stroke: #1a7f37; fill: #1a7f37 } .c4 { stroke: #9a6700; fill: #9a6700 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .grid { stroke: #3d444d }
  .c0 { stroke: #9198a1; fill: #9198a1 } .c1 { stroke: #f85149; fill: #f85149 } .c2 { stroke: #58a6ff; fill: #58a6ff }
  .c3 { stroke: #3fb950; fill: #3fb950 } .c4 { stroke: #d29922; fill: #d29922 }
}
`

// A panel in pixels.
const (
	wide, high  = 300, 180
	left, top   = 46, 76
	between     = 70
	legendWidth = 190
)

// draw draws two panels over the load: the answers in time, and within which time 99 % of them came.
func draw(results []result) string {
	var b strings.Builder
	w, h := left+2*wide+between+20, top+high+44
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title>Answers in time and their latency, over the load</title>\n<!-- written by make plots -->\n<style>%s</style>\n", style)
	legend(&b, results)
	panel(&b, results, left, "answers in time, a second", 200, func(r result) (float64, bool) { return r.good, true })
	panel(&b, results, left+wide+between, "99 % of them came within, ms", 500, func(r result) (float64, bool) { return ms(r.p99), r.good > 0 })
	b.WriteString("</svg>\n")
	return b.String()
}

// limits returns the names, in order.
func limits(results []result) (names []string) {
	for i := 0; i < len(results); i += len(loads) {
		names = append(names, results[i].limit)
	}
	return names
}

func legend(b *strings.Builder, results []result) {
	for i, name := range limits(results) {
		x, y := left+i%3*(legendWidth+40), 14+i/3*18
		fmt.Fprintf(b, `<path class="line c%d" d="M%d %dh22"/><text x="%d" y="%d">%s</text>`+"\n", i, x, y, x+28, y+4, name)
	}
}

func panel(b *strings.Builder, results []result, x0 int, title string, most float64, value func(result) (float64, bool)) {
	bottom := top + high
	x := func(load float64) float64 { return float64(x0) + wide*math.Log(load/loads[0])/math.Log(10) }
	y := func(v float64) float64 { return float64(bottom) - high*v/most }
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", x0, top-14, title)
	for i := range 5 {
		v := most * float64(i) / 4
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", x0, y(v), wide, x0-8, y(v)+4, v)
	}
	for _, load := range loads {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x(load), bottom+16, load)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">load, as a multiple of the capacity</text>`+"\n", x0, bottom+34)
	for i := range limits(results) {
		line(b, results[i*len(loads):(i+1)*len(loads)], i, func(r result) (float64, float64, bool) {
			v, ok := value(r)
			return x(r.load), y(v), ok
		})
	}
}

// line draws the values of a limit, as far as there are some.
func line(b *strings.Builder, of []result, class int, at func(result) (x, y float64, ok bool)) {
	var path, points strings.Builder
	for _, r := range of {
		x, y, ok := at(r)
		if !ok {
			break
		}
		command := "L"
		if path.Len() == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x, y)
		fmt.Fprintf(&points, `<circle class="c%d" cx="%.1f" cy="%.1f" r="2.6"/>`, class, x, y)
	}
	fmt.Fprintf(b, `<path class="line c%d" d="%s"/>%s`+"\n", class, path.String(), points.String())
}
