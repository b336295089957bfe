package docs_test

import (
	"fmt"
	"strings"
	"time"
)

// The plot in pixels: a second is 130 wide, a request 4 high.
const (
	second       = 130
	line         = 4
	left, top    = 46, 30
	right, below = 44, 40
)

const style = `
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.grid { stroke: #d0d7de }
.waits { stroke: #9a6700; stroke-opacity: .6 }
.granted { fill: #0969da }
.rejected { stroke: #cf222e; stroke-width: 1.2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .grid { stroke: #3d444d } .waits { stroke: #d29922 } .granted { fill: #58a6ff } .rejected { stroke: #f85149 }
}
`

// draw returns a plot of what a limiter did: each request is a row, from when it came to when it was
// granted, a dot, or rejected, a cross.
func draw(l leaf, requests []request) string {
	width, height := second*int(end/time.Second), line*len(requests)
	wide, high := left+width+right, top+height+below
	granted := 0
	for _, r := range requests {
		if r.granted {
			granted++
		}
	}
	title := fmt.Sprintf("%s: %d of %d requests granted, %d rejected", l.spec, granted, len(requests), len(requests)-granted)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		wide, high, wide, high)
	fmt.Fprintf(&b, "<title>%s</title>\n<!-- written by make plots -->\n<style>%s</style>\n", title, style)
	fmt.Fprintf(&b, `<text x="%d" y="18">%s</text>`+"\n", left, title)
	for s := range int(end/time.Second) + 1 {
		x := left + s*second
		fmt.Fprintf(&b, `<path class="grid" d="M%d %dV%d"/><text x="%d" y="%d" text-anchor="middle">%d s</text>`+"\n",
			x, top, top+height, x, top+height+16, s)
	}
	for _, n := range []int{0, 10, 20, 30, 40} {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%d</text>`+"\n", left-8, top+height-n*line+4, n)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">each row is a request, the first at the bottom; dot: granted, cross: rejected, line: it waits</text>`+"\n",
		left, top+height+33)
	for i, r := range requests {
		from, to, y := pixel(r.came), pixel(r.decided), top+height-i*line
		if to > from {
			fmt.Fprintf(&b, `<path class="waits" d="M%.1f %dH%.1f"/>`, from, y, to)
		}
		if r.granted {
			fmt.Fprintf(&b, `<circle class="granted" cx="%.1f" cy="%d" r="2.4"/>`+"\n", to, y)
		} else {
			fmt.Fprintf(&b, `<path class="rejected" d="M%.1f %dl4 4m0 -4l-4 4"/>`+"\n", to-2, y-2)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// pixel returns where an instant is drawn. It rounds whole numbers, which are the same on every machine.
func pixel(at time.Duration) float64 {
	return float64(left*10+second*10*int(at.Milliseconds())/1000) / 10
}
