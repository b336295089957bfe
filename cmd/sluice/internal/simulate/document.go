package simulate

import (
	"bytes"
	"fmt"
	"html"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
)

// document is an HTML page in progress. It does not use html/template, because templates call methods by name: the linker
// would keep every method of every package, which makes the program half as large again.
type document struct{ bytes.Buffer }

// markup is text that is already HTML.
type markup string

// add appends HTML. It escapes all arguments except markup; their verb is %v.
func (d *document) add(format string, args ...any) {
	escaped := make([]any, len(args))
	for i, a := range args {
		if m, ok := a.(markup); ok {
			escaped[i] = m
		} else {
			escaped[i] = html.EscapeString(fmt.Sprint(a))
		}
	}
	_, _ = fmt.Fprintf(d, format, escaped...)
}

func (d *document) head(r *result) {
	d.add(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sluice simulate: %v</title>
<style>
%v</style>
<h1>What <code>%v</code> would have done</h1>
`, r.what, markup(style), r.what)
}

// summary writes the counts of the requests.
func (d *document) summary(r *result, v report) {
	d.add("<p>%v requests in %v", thousands(v.Requests), round(v.Span))
	if !r.synthetic {
		d.add(", from %v UTC", time.Unix(0, r.base).UTC().Format(time.DateTime))
	}
	d.add(".\n")
	if v.Bad > 0 {
		d.add("%v lines could not be read.\n", thousands(v.Bad))
	}
	d.add("The busiest second had %v requests; no second had more than %v granted.</p>\n", thousands(v.Peak.Requests), thousands(v.Peak.Granted))
	d.add(`<table>
<tr><th></th><th>granted</th><th></th><th>of them queued</th><th>rejected</th><th></th></tr>
`)
	d.variant("this limit", v.Counts, v.Requests)
	d.variant("half of it", v.Half, v.Requests)
	d.variant("twice it", v.Twice, v.Requests)
	d.add("</table>\n")
	if v.Queued > 0 {
		d.add("<p>Requests that waited did so for %v (p50), %v (p90), %v (p99), %v at most.</p>\n",
			round(v.Wait.P50), round(v.Wait.P90), round(v.Wait.P99), round(v.Wait.Max))
	}
}

// variant writes a row of the table of limits.
func (d *document) variant(name string, v engine.Counts, requests int) {
	d.add("<tr><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td></tr>\n",
		name, thousands(v.Granted), percent(v.Granted, requests), thousands(v.Queued), thousands(v.Rejected), percent(v.Rejected, requests))
}

func (d *document) keys(keys []engine.KeyRow) {
	if len(keys) == 0 {
		return
	}
	d.add(`<table>
<tr><th>key</th><th>requests</th><th>granted</th><th>queued</th><th>rejected</th><th></th></tr>
`)
	most := max(keys[0].Rejected, 1) // they are sorted by it
	for _, k := range keys {
		d.add("<tr><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td><i style=\"width: %vpx\"></i></td></tr>\n",
			k.Name, thousands(k.Requests), thousands(k.Granted), thousands(k.Queued), thousands(k.Rejected), (240*k.Rejected+most-1)/most)
	}
	d.add("</table>\n")
}

// flows writes the table of flows.
func (d *document) flows(flows []engine.FlowRow) {
	if len(flows) == 0 {
		return
	}
	d.add(`<table>
<tr><th>flow</th><th>requests</th><th>granted</th><th>rejected</th><th>waited</th><th>p50</th><th>p90</th><th>p99</th><th>longest</th></tr>
`)
	for _, f := range flows {
		d.add("<tr><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td><td>%v</td></tr>\n",
			f.Name, f.Requests, f.Granted, f.Rejected, f.Queued,
			round(f.Wait.P50), round(f.Wait.P90), round(f.Wait.P99), round(f.Wait.Max))
	}
	d.add("</table>\n")
}

func percent(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
}
