package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// write makes RESULTS.md, the tables in both README.md and the plots of all results.
func write() error {
	all, err := load()
	if err != nil {
		return err
	}
	summary := summary(all)
	var t strings.Builder
	t.WriteString("# Results\n\nWritten by `go run ./cmd/report` from the files in [results](results); what is measured, and how to read it, is in the [README](README.md).\n\n")
	t.WriteString("## The goals\n\n" + summary + "\n")
	implTables(&t, all)
	curveTables(&t, all)
	if err := os.WriteFile("RESULTS.md", []byte(t.String()), 0o644); err != nil {
		return err
	}
	if err := inject("README.md", summary); err != nil {
		return err
	}
	if err := inject("../README.md", headlines(all)); err != nil {
		return err
	}
	return newPlotSet(all, "plots").write()
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

// summary returns where the figures are from, the table of goals and its plot.
func summary(all map[kind]measured) string {
	var t strings.Builder
	provenance(&t, all)
	goalTable(&t, all)
	fmt.Fprintf(&t, "The plot is of the processor that was measured last, %s. Every plot names its processor.\n\n![ratios](plots/ratios.svg)\n", newPlotSet(all, "").cpu)
	return t.String()
}

// provenance writes where the figures of each column are from. There is more than one answer
// where rows were measured at different times.
func provenance(t *strings.Builder, all map[kind]measured) {
	row(t, "column", "processor", "cores", "system", "architecture", "Go", "commit", "date", "effort")
	row(t, "---", "---", "--:", "---", "---", "---", "---", "---", "---")
	for _, k := range seen(all) {
		ms := all[k]
		dates := ms.settings("date")
		for i, d := range dates {
			dates[i] = day(d)
		}
		if len(dates) > 1 {
			dates = slices.Compact([]string{dates[0], dates[len(dates)-1]})
		}
		one := func(key string) string { return strings.Join(ms.settings(key), ", ") }
		row(t, string(k), one("cpu"), one("cores"), one("goos"), one("goarch"), one("goversion"), one("commit"),
			strings.Join(dates, " to "), strings.Join(ms.settings("effort"), "; "))
	}
	t.WriteString("\nThe commit and the date of each row are next to its numbers in [RESULTS.md](RESULTS.md#every-implementation).\n\n")
}

// settings returns the different values of a setting in all results, sorted.
func (ms measured) settings(key string) []string {
	values := map[string]bool{}
	for _, res := range ms {
		if v := res.config[key]; v != "" {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// day returns the date without the time of day, which earlier results do not have.
func day(date string) string {
	d, _, _ := strings.Cut(date, " ")
	return d
}

// seen returns the kinds of processors that have results.
func seen(all map[kind]measured) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return len(all[k]) == 0 })
}

const explained = "Ratio: the median of the paired ratios, ours to the rival's, with the quartiles in brackets. " +
	"With a sign and ns: the same of the differences, ours less the rival's. With a unit and no rival: the amount of ours. Less is better. " +
	"Allocs: of ours, per operation. A timed row may have 0, or as many as its goal says. Met: ratio and allocs, on the processors that were measured.\n\n"

// goalTable writes the lines, with a goal and a ratio for each kind of processor.
func goalTable(t *strings.Builder, all map[kind]measured) {
	columns := []kind{intel, amd}
	if len(all[other]) > 0 {
		columns = append(columns, other)
	}
	head, rule := []string{"work", "rival"}, []string{"---", "---"}
	for _, k := range columns {
		if k != other {
			head, rule = append(head, "goal "+string(k)), append(rule, "--:")
		}
		head, rule = append(head, "ratio "+string(k)), append(rule, "--:")
	}
	t.WriteString(explained)
	row(t, append(head, "met", "allocs")...)
	row(t, append(rule, ":-:", "--:")...)
	for _, l := range goals() {
		goalRow(t, l, columns, all)
	}
	t.WriteString("\n")
	for _, k := range columns {
		if met, judged := count(k, all[k]); judged > 0 {
			fmt.Fprintf(t, "%s: %d of %d goals are met.\n", k, met, judged)
		}
	}
	t.WriteString("\n")
}

func goalRow(t *strings.Builder, l line, columns []kind, all map[kind]measured) {
	cells := []string{l.work, l.rival}
	met, allocs := map[kind]string{}, map[kind]string{}
	for _, k := range columns {
		ratio := "not measured"
		if v, ok := judge(l, k, all[k]); ok {
			ratio, met[k], allocs[k] = v.compared(), v.answer(), v.allocated()
		}
		if k != other {
			cells = append(cells, l.wanted(k))
		}
		cells = append(cells, ratio)
	}
	row(t, append(cells, together(columns, met), together(columns, allocs))...)
}

// together returns the texts for some kinds of processors in one cell: once if they are equal.
func together(columns []kind, of map[kind]string) string {
	var texts, named []string
	for _, k := range columns {
		if of[k] != "" {
			texts, named = append(texts, of[k]), append(named, string(k)+" "+of[k])
		}
	}
	if len(slices.Compact(texts)) == 1 {
		return texts[0]
	}
	return strings.Join(named, ", ")
}

// count returns how many of the goals on a kind of processor are met, of those that were
// measured.
func count(k kind, ms measured) (met, judged int) {
	for _, l := range goals() {
		v, ok := judge(l, k, ms)
		if !ok || v.most == 0 {
			continue
		}
		judged++
		if v.met {
			met++
		}
	}
	return met, judged
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

// fullNames are how readers of the front page know the rivals.
var fullNames = strings.NewReplacer("xsync-", "x/sync/", "xtime-", "x/time/", "+native", " and a native channel")

// headlines returns the few lines for the front page.
func headlines(all map[kind]measured) string {
	var t strings.Builder
	columns := seen(all)
	head, rule := []string{"work", "set-up", "compared with"}, []string{"---", "---", "---"}
	for _, k := range columns {
		head, rule = append(head, "ours, "+string(k), "ratio, "+string(k)), append(rule, "--:", "--:")
	}
	row(&t, head...)
	row(&t, rule...)
	for _, h := range headlineRows {
		for _, l := range goals() {
			if l.measurement != h.measurement || l.rival != h.rival || l.ours != ours {
				continue
			}
			cells := []string{h.work, h.held, fullNames.Replace(h.rival)}
			for _, k := range columns {
				if v, ok := judge(l, k, all[k]); ok {
					cells = append(cells, figure(v.ours)+" ns", v.compared()+v.loss())
				} else {
					cells = append(cells, "", "")
				}
			}
			row(&t, cells...)
		}
	}
	return t.String()
}

// row writes a row of a table.
func row(t *strings.Builder, cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
