package docs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Results are the figures of the last runs of the benchmarks. The file bench/results.txt contains them, one row per line:
//
//	Concurrency/work=try/impl=sluice 2026-11-26 28.2 ns/op 0 B/op 0 allocs/op
//	Concurrency/work=try/impl=sluice vs semaphore 2026-11-26 1.02 1.01 1.04
//
// A row of the first kind has the medians of the rounds. A row of the second kind compares two implementations: the median
// and the quartiles of the ratios of their times, each within one round.
type Results struct {
	Machine string
	Rows    map[string]Row
}

// A Row is a line of the results.
type Row struct {
	Date   string
	Values map[string]float64 // values by unit; of a comparison, "ratio", "q1" and "q3"
}

const machineMark = "# "

// ReadResults reads bench/results.txt.
func ReadResults(from io.Reader) (Results, error) {
	r := Results{Rows: map[string]Row{}}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		if machine, ok := strings.CutPrefix(line, machineMark); ok {
			r.Machine = machine
			continue
		}
		name, row, err := parseRow(strings.Fields(line))
		if err != nil {
			return r, fmt.Errorf("%q: %w", line, err)
		}
		r.Rows[name] = row
	}
	return r, lines.Err()
}

func parseRow(fields []string) (string, Row, error) {
	at := slices.IndexFunc(fields, func(f string) bool { _, err := time.Parse(time.DateOnly, f); return err == nil })
	if at < 1 {
		return "", Row{}, errors.New("want a name and a date")
	}
	name, row, rest := strings.Join(fields[:at], " "), Row{fields[at], map[string]float64{}}, fields[at+1:]
	units := []string{"ratio", "q1", "q3"}
	if at == 1 { // the units stand behind the values
		units = units[:0]
		var values []string
		for pair := range slices.Chunk(rest, 2) {
			if len(pair) != 2 {
				return "", Row{}, fmt.Errorf("want a unit behind %q", pair[0])
			}
			values, units = append(values, pair[0]), append(units, pair[1])
		}
		rest = values
	}
	if len(rest) != len(units) || len(rest) == 0 {
		return "", Row{}, fmt.Errorf("want %d values", max(1, len(units)))
	}
	for i, text := range rest {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", Row{}, err
		}
		row.Values[units[i]] = v
	}
	return name, row, nil
}

// Write writes the results as ReadResults reads them.
func (r Results) Write(to io.Writer) error {
	var b strings.Builder
	b.WriteString(machineMark + r.Machine + "\n")
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	for _, name := range slices.Sorted(maps.Keys(r.Rows)) {
		row := r.Rows[name]
		b.WriteString(name + " " + row.Date)
		if strings.Contains(name, " vs ") {
			b.WriteString(" " + number(row.Values["ratio"]) + " " + number(row.Values["q1"]) + " " + number(row.Values["q3"]))
		} else {
			for _, unit := range slices.Sorted(maps.Keys(row.Values)) {
				b.WriteString(" " + number(row.Values[unit]) + " " + unit)
			}
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(to, b.String())
	return err
}

var (
	benchmark      = regexp.MustCompile(`^Benchmark(\S+?)(?:-(\d+))?\s+\d+\s+(.*)$`)
	implementation = regexp.MustCompile(`impl=([^/\s]+)`)
)

// Add replaces rows by the medians of a run, which is the output of several rounds of go test -bench.
func (r *Results) Add(run io.Reader, date time.Time) error {
	rounds := map[string][]map[string]float64{}
	lines := bufio.NewScanner(run)
	cpu, cores := "", "1"
	for lines.Scan() {
		if model, ok := strings.CutPrefix(lines.Text(), "cpu: "); ok {
			cpu = model
		}
		m := benchmark.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if m[2] != "" {
			cores = m[2]
		}
		_, row, err := parseRow(append([]string{m[1], date.Format(time.DateOnly)}, strings.Fields(m[3])...))
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		rounds[m[1]] = append(rounds[m[1]], row.Values)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(rounds) == 0 {
		return errors.New("no benchmark has run")
	}
	r.Machine = machine(cpu, cores)
	for name, measured := range rounds {
		medians := map[string]float64{}
		for unit := range measured[0] {
			medians[unit] = quantile(column(measured, unit), 0.5)
		}
		r.Rows[name] = Row{date.Format(time.DateOnly), medians}
		ours := implementation.FindStringSubmatch(name)
		if len(ours) == 0 || !strings.HasPrefix(ours[1], "sluice") {
			continue
		}
		for other, theirs := range rounds {
			rival := implementation.FindStringSubmatch(other)
			if len(rival) == 0 || strings.HasPrefix(rival[1], "sluice") || implementation.ReplaceAllString(other, "") != implementation.ReplaceAllString(name, "") {
				continue
			}
			var ratios []float64
			for i := range min(len(measured), len(theirs)) {
				ratios = append(ratios, measured[i]["ns/op"]/theirs[i]["ns/op"])
			}
			r.Rows[name+" vs "+rival[1]] = Row{date.Format(time.DateOnly), map[string]float64{
				"ratio": quantile(ratios, 0.5), "q1": quantile(ratios, 0.25), "q3": quantile(ratios, 0.75),
			}}
		}
	}
	return nil
}

func machine(cpu, cores string) string {
	cpu = strings.TrimSuffix(strings.NewReplacer("(R)", "", "(TM)", "").Replace(cpu), " Processor")
	return fmt.Sprintf("%s, %s cores, Go %s", cpu, cores, strings.TrimPrefix(runtime.Version(), "go"))
}

// Measured returns the first line of bench/commands.txt and of bench/rls.txt: where and when they were measured.
func Measured(now time.Time) string {
	cpu := "an unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := model.FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	return machineMark + machine(cpu, strconv.Itoa(runtime.NumCPU())) + ", " + now.Format("2 January 2006") + "\n"
}

var model = regexp.MustCompile(`(?m)^model name\s*: (.*)$`)

func column(rounds []map[string]float64, unit string) []float64 {
	values := make([]float64, 0, len(rounds))
	for _, round := range rounds {
		values = append(values, round[unit])
	}
	return values
}

// quantile interpolates between the values around it.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low, high := sorted[int(at)], sorted[int(math.Ceil(at))]
	return low + (high-low)*(at-math.Floor(at))
}
