package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// implTables writes the figures of every implementation, a table for each measurement.
func implTables(t *strings.Builder, all map[kind]measured) {
	t.WriteString("## Every implementation\n\nMedians. Ratio: the median of the paired ratios, those of the processor's first line to this one.\n\n")
	for _, f := range families {
		fmt.Fprintf(t, "![%s](plots/%s.svg)\n", f.title, f.name)
	}
	for _, m := range measurements() {
		if on := measuredOn(m, all); len(on) > 0 && m.curve == nil {
			fmt.Fprintf(t, "\n### %s\n\n", m.name)
			sources(t, m, on, all)
			implTable(t, m, on, all)
		}
	}
	t.WriteString("\n")
}

func implTable(t *strings.Builder, m measurement, on []kind, all map[kind]measured) {
	units := union(m, on, all, (*results).units)
	slices.Sort(units)
	head, rule := []string{"processor", "impl"}, []string{"---", "---"}
	for _, u := range units {
		head, rule = append(head, u), append(rule, "--:")
	}
	timed := slices.Contains(units, "ns/op")
	if timed {
		head, rule = append(head, "ratio"), append(rule, "--:")
	}
	row(t, head...)
	row(t, rule...)
	for _, k := range on {
		res := all[k][m.name]
		impls := res.order()
		for _, impl := range impls {
			cells := []string{string(k), impl}
			for _, u := range units {
				cells = append(cells, cell(res.values[sample{impl, 0, u}]))
			}
			if timed {
				cells = append(cells, fmt.Sprintf("%.2f", median(res.ratios(impls[0], impl, 0, "ns/op"))))
			}
			row(t, cells...)
		}
	}
}

// curveTables writes the points of every curve.
func curveTables(t *strings.Builder, all map[kind]measured) {
	t.WriteString("## How cost grows\n\nns per operation, medians.\n")
	for _, m := range measurements() {
		if on := measuredOn(m, all); len(on) > 0 && m.curve != nil {
			fmt.Fprintf(t, "\n### %s\n\n", m.curve.title)
			sources(t, m, on, all)
			fmt.Fprintf(t, "![%s](plots/%s.svg)\n\n", m.curve.title, m.name)
			curveTable(t, m, on, all)
		}
	}
}

func curveTable(t *strings.Builder, m measurement, on []kind, all map[kind]measured) {
	impls := union(m, on, all, (*results).order)
	row(t, append([]string{"processor", m.curve.label}, impls...)...)
	row(t, append([]string{"---", "--:"}, slices.Repeat([]string{"--:"}, len(impls))...)...)
	for _, k := range on {
		res := all[k][m.name]
		for _, p := range res.points {
			cells := []string{string(k), strconv.Itoa(p)}
			for _, impl := range impls {
				cells = append(cells, cell(res.values[sample{impl, p, "ns/op"}]))
			}
			row(t, cells...)
		}
	}
}

// measuredOn returns the kinds of processors that have results of a measurement.
func measuredOn(m measurement, all map[kind]measured) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return all[k][m.name] == nil })
}

// sources writes which benchmark a measurement is, and for each kind of processor where its
// results are and what they are of.
func sources(t *strings.Builder, m measurement, on []kind, all map[kind]measured) {
	fmt.Fprintf(t, "`%s`", strings.TrimSuffix("Benchmark"+m.bench+"/"+m.at, "/"))
	for _, k := range on {
		config := all[k][m.name].config
		fmt.Fprintf(t, ", [%s](%s) (commit %s, %s)", k, k.file(m.name), config["commit"], day(config["date"]))
	}
	t.WriteString("\n\n")
}

// union returns what the results on all these kinds of processors have, each once.
func union(m measurement, on []kind, all map[kind]measured, of func(*results) []string) []string {
	var texts []string
	for _, k := range on {
		for _, text := range of(all[k][m.name]) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// cell returns the median for a table, nothing if there is none.
func cell(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return figure(median(values))
}

// figure returns v with three figures, but without fractions above 100.
func figure(v float64) string {
	switch {
	case v < 0.005 && v > -0.005:
		return "0"
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
