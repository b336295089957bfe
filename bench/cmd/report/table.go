package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// write makes RESULTS.md and the plots of all results in folder.
func write(folder string) error {
	all := map[string]*results{}
	for _, m := range measurements() {
		f, err := os.Open(filepath.Join(folder, m.name+".txt"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		res, err := m.parse(f.Name(), f)
		_ = f.Close()
		if err != nil {
			return err
		}
		if len(res.impls) > 0 {
			all[m.name] = res
		}
	}
	var t strings.Builder
	t.WriteString("# Results\n\nWritten by `go run ./cmd/report` from the files in [results](results); what is measured, and how to read it, is in the [README](README.md).\n\n")
	summary := summary(all)
	t.WriteString("## The goals\n\n" + summary + "![ratios](plots/ratios.svg)\n\n")
	implTables(&t, all)
	curveTables(&t, all)
	if err := os.WriteFile("RESULTS.md", []byte(t.String()), 0o644); err != nil {
		return err
	}
	if err := inject("README.md", summary+"![ratios](plots/ratios.svg)\n"); err != nil {
		return err
	}
	if err := inject("../README.md", headlines(all)); err != nil {
		return err
	}
	return plots(all, "plots")
}

// A file that has these two lines gets the table between them.
const (
	injectBegin = "<!-- bench table, written by make bench -->\n"
	injectEnd   = "<!-- end of the bench table -->\n"
)

// inject puts text between the marks of a file. One without them stays as it is.
func inject(file, text string) error {
	old, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), injectBegin)
	_, after, ended := strings.Cut(rest, injectEnd)
	if !found || !ended {
		return nil
	}
	return os.WriteFile(file, []byte(before+injectBegin+"\n"+text+"\n"+injectEnd+after), 0o644)
}

// summary returns where the figures are from, and the table of goals.
func summary(all map[string]*results) string {
	var t strings.Builder
	provenance(&t, all)
	goalTable(&t, all)
	return t.String()
}

// provenance tells where the figures are from. There is more than one answer where some
// were measured again later.
func provenance(t *strings.Builder, all map[string]*results) {
	for _, k := range []struct{ key, title string }{
		{"cpu", "machine"},
		{"cores", "cores"},
		{"goos", "system"},
		{"goarch", "architecture"},
		{"goversion", "Go"},
		{"commit", "commit"},
		{"date", "date"},
		{"command", "command"},
		{"effort", "effort"},
	} {
		seen := map[string]bool{}
		for _, res := range all {
			if v := res.config[k.key]; v != "" {
				seen[v] = true
			}
		}
		values := slices.Sorted(maps.Keys(seen))
		if k.key == "command" {
			for i, v := range values {
				values[i] = "`" + v + "`"
			}
		}
		fmt.Fprintf(t, "- %s: %s\n", k.title, strings.Join(values, ", "))
	}
	t.WriteString("\n")
}

// verdict is how a line of the table came out.
type verdict struct {
	line
	ours, theirs  float64 // medians
	ratio         float64 // median of the pairs' ratios, or of their differences
	low, high     float64 // the pairs' quartiles
	rounds        int
	bytes, allocs float64 // of ours, per operation
	met           bool
}

// judge returns the verdict on a line, false if there is nothing to judge.
func judge(l line, all map[string]*results) (verdict, bool) {
	res := all[l.measurement]
	if res == nil {
		return verdict{}, false
	}
	unit := l.unit
	if unit == "" {
		unit = "ns/op"
	}
	mine := res.values[sample{l.ours, 0, unit}]
	v := verdict{
		line: l, ours: median(mine), rounds: len(mine),
		bytes:  median(res.values[sample{l.ours, 0, "B/op"}]),
		allocs: median(res.values[sample{l.ours, 0, "allocs/op"}]),
	}
	if len(mine) == 0 {
		return v, false
	}
	if l.unit != "" {
		v.met = v.ours <= l.goal
		return v, true
	}
	compare := res.ratios
	if l.more {
		compare = res.differences
	}
	pairs := compare(l.ours, l.rival, 0, unit)
	if len(pairs) == 0 {
		return v, false
	}
	v.rounds = len(pairs)
	v.theirs = median(res.values[sample{l.rival, 0, unit}])
	v.ratio, v.low, v.high = median(pairs), quantile(pairs, 0.25), quantile(pairs, 0.75)
	v.met = v.ratio <= l.goal && (!l.noAlloc || v.allocs == 0)
	return v, true
}

func goalTable(t *strings.Builder, all map[string]*results) {
	t.WriteString("ratio: the median of the paired ratios, ours to theirs; in brackets, the quartiles. With a sign and ns: the same of the differences, ours less theirs. Less is better.\n\n" +
		"| work | to | ours | theirs | ratio | goal | met | ours: B/op | allocs/op |\n|---|---|--:|--:|--:|--:|:-:|--:|--:|\n")
	met, judged := 0, 0
	for _, l := range goals() {
		v, ok := judge(l, all)
		if !ok {
			fmt.Fprintf(t, "| %s | %s | | | not measured | %s | | | |\n", l.work, l.rival, l.wanted())
			continue
		}
		judged++
		mark := "no"
		if v.met {
			met++
			mark = "yes"
		}
		if l.unit != "" {
			fmt.Fprintf(t, "| %s | | %s%s | | | %s | %s | | |\n", l.work, figure(v.ours), l.suffix(), l.wanted(), mark)
			continue
		}
		fmt.Fprintf(t, "| %s | %s | %s ns | %s ns | %s | %s | %s | %s | %s |\n",
			l.work, l.rival, figure(v.ours), figure(v.theirs), v.compared(), l.wanted(), mark, figure(v.bytes), figure(v.allocs))
	}
	fmt.Fprintf(t, "\n%d of %d goals are met.\n\n", met, judged)
}

// compared returns how ours compares with theirs, for a table.
func (v verdict) compared() string {
	if v.more {
		return fmt.Sprintf("**%+.0f ns** (%+.0f–%+.0f)", v.ratio, v.low, v.high)
	}
	return fmt.Sprintf("**%.2f** (%.2f–%.2f)", v.ratio, v.low, v.high)
}

// headline is a line of the front page: which line of the table, and what a reader has to know of it.
type headline struct{ measurement, rival, work, held string }

var headlineRows = []headline{
	{"held-1000", semaphore, "concurrency limiter, TryAcquire + Release", "1,000 other leases are held; one goroutine"},
	{"held-all-cores-1000", semaphore, "the same, from all cores", "1,000 other leases are held; a goroutine for each core"},
	{"rate-try-1ms", timeRate, "token bucket, TryAcquire", "the tokens are there; one goroutine"},
	{"channel-4", guarded, "channel.New with a ConcurrencyLimiter of 128", "4 senders, 4 receivers, the queue often full"},
	{"pipe-512", "io.Pipe", "pipe of 64 KiB, writes of 512 B", "one writer, one reader"},
	{"pool", "pond", "worker pool, empty task", "16 workers, a queue of 1,024"},
}

// headlines returns the few lines that stand on the front page.
func headlines(all map[string]*results) string {
	var t strings.Builder
	t.WriteString("| work | held, and who competes | to | ours | theirs | ratio |\n|---|---|---|--:|--:|--:|\n")
	for _, h := range headlineRows {
		for _, l := range goals() {
			if l.measurement != h.measurement || l.rival != h.rival || l.ours != ours {
				continue
			}
			if v, ok := judge(l, all); ok {
				fmt.Fprintf(&t, "| %s | %s | %s | %s ns | %s ns | %s |\n",
					h.work, h.held, h.rival, figure(v.ours), figure(v.theirs), v.compared())
			}
		}
	}
	return t.String()
}

func implTables(t *strings.Builder, all map[string]*results) {
	t.WriteString("## Every implementation\n\nMedians. ratio: the median of the paired ratios, the first line's to this one's.\n\n")
	for _, f := range families {
		fmt.Fprintf(t, "![%s](plots/%s.svg)\n", f.title, f.name)
	}
	for _, m := range measurements() {
		res := all[m.name]
		if res == nil || m.curve != nil {
			continue
		}
		units := res.units()
		title := strings.TrimSuffix("Benchmark"+m.bench+"/"+m.at, "/")
		fmt.Fprintf(t, "\n### %s\n\n`%s` in [results/%s.txt](results/%s.txt)\n\n| impl |", m.name, title, m.name, m.name)
		for _, u := range units {
			fmt.Fprintf(t, " %s |", u)
		}
		timed := slices.Contains(units, "ns/op")
		if timed {
			t.WriteString(" ratio |")
		}
		t.WriteString("\n|---|" + strings.Repeat("--:|", len(units)))
		if timed {
			t.WriteString("--:|")
		}
		t.WriteString("\n")
		impls := res.order()
		for _, impl := range impls {
			fmt.Fprintf(t, "| %s |", impl)
			for _, u := range units {
				fmt.Fprintf(t, " %s |", cell(res.values[sample{impl, 0, u}]))
			}
			if timed {
				fmt.Fprintf(t, " %.2f |", median(res.ratios(impls[0], impl, 0, "ns/op")))
			}
			t.WriteString("\n")
		}
	}
	t.WriteString("\n")
}

// order returns the implementations in the order of the benchmark, ours first.
func (r *results) order() []string {
	impls := slices.Clone(r.impls)
	slices.SortStableFunc(impls, func(a, b string) int {
		return rank(a) - rank(b)
	})
	return impls
}

func rank(impl string) int {
	if isOurs(impl) {
		return 0
	}
	return 1
}

func isOurs(impl string) bool { return strings.HasPrefix(impl, ours) }

func curveTables(t *strings.Builder, all map[string]*results) {
	t.WriteString("## How cost grows\n\nns per operation, medians.\n")
	for _, m := range measurements() {
		res := all[m.name]
		if res == nil || m.curve == nil {
			continue
		}
		fmt.Fprintf(t, "\n### %s\n\n`Benchmark%s` in [results/%s.txt](results/%s.txt)\n\n![%s](plots/%s.svg)\n\n| %s |",
			m.curve.title, m.bench, m.name, m.name, m.curve.title, m.name, m.curve.label)
		impls := res.order()
		for _, impl := range impls {
			fmt.Fprintf(t, " %s |", impl)
		}
		t.WriteString("\n|--:|" + strings.Repeat("--:|", len(impls)) + "\n")
		for _, p := range res.points {
			fmt.Fprintf(t, "| %d |", p)
			for _, impl := range impls {
				fmt.Fprintf(t, " %s |", cell(res.values[sample{impl, p, "ns/op"}]))
			}
			t.WriteString("\n")
		}
	}
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
