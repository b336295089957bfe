package docs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figures are everything that was measured: the results of the benchmarks, and the outputs of the programs that measure
// whole commands.
type Figures struct {
	Results
	commands, servers string // the outputs of bench/cmd/compare and of bench/rls
}

// ReadFigures reads the files in bench/ that contain what was measured.
func ReadFigures(root string) (f Figures, err error) {
	results, err := os.Open(filepath.Join(root, "bench", "results.txt"))
	if err != nil {
		return f, err
	}
	defer func() { _ = results.Close() }()
	if f.Results, err = ReadResults(results); err != nil {
		return f, err
	}
	commands, err := os.ReadFile(filepath.Join(root, "bench", "commands.txt"))
	if err != nil {
		return f, err
	}
	servers, err := os.ReadFile(filepath.Join(root, "bench", "rls.txt"))
	f.commands, f.servers = string(commands), string(servers)
	return f, err
}

// Fill returns a text with the numbers that were measured: in the table below each mark <!--table:NAME-->, and in each of the
// sentences. A sentence is written with placeholders for its numbers; see number.
func (f Figures) Fill(text string, sentences ...string) (string, error) {
	text, err := f.fillTables(text)
	for _, sentence := range sentences {
		if err == nil {
			text, err = f.fillSentence(text, sentence)
		}
	}
	return text, err
}

var tableMark = regexp.MustCompile(`(?m)^<!--table:(\w+)-->\n\n((?:\|.*\n)*)`)

func (f Figures) fillTables(text string) (filled string, err error) {
	filled = tableMark.ReplaceAllStringFunc(text, func(found string) string {
		name := tableMark.FindStringSubmatch(found)[1]
		table, failed := f.table(name)
		if failed != nil {
			err = fmt.Errorf("table %s: %w", name, failed)
		}
		return "<!--table:" + name + "-->\n\n" + table
	})
	return filled, err
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// Pattern returns an expression that finds a sentence, whatever its numbers are and however its lines are broken.
func Pattern(sentence string) (*regexp.Regexp, []string) {
	words := regexp.QuoteMeta(placeholder.ReplaceAllString(sentence, "\x00"))
	words = strings.Join(strings.Fields(words), `\s+(?://\s+)?`)
	if strings.HasSuffix(sentence, ".") {
		words += `(?:\s|$)` // the point is not that of a number before it
	}
	return regexp.MustCompile(strings.ReplaceAll(words, "\x00", `([^|{}]{1,80}?)`)), placeholder.FindAllString(sentence, -1)
}

func (f Figures) fillSentence(text, sentence string) (string, error) {
	expression, holes := Pattern(sentence)
	found := expression.FindAllStringSubmatchIndex(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("found %d times: %s", len(found), sentence)
	}
	for i, hole := range slices.Backward(holes) {
		value, err := f.number(strings.Trim(hole, "{}"))
		if err != nil {
			return "", fmt.Errorf("%s: %w", hole, err)
		}
		start, end := found[0][2*i+2], found[0][2*i+3]
		if !slices.Equal(strings.Fields(text[start:end]), strings.Fields(value)) { // else a line may be broken in it
			text = text[:start] + value + text[end:]
		}
	}
	return text, nil
}

// number returns the text for a placeholder:
//
//	{machine}, {dates; PREFIX}        where and when the benchmarks with the prefix were measured
//	{ratio; NAME; RIVAL}              our time divided by the rival's
//	{faster; NAME; RIVAL}             the rival's time divided by ours
//	{time; NAME; UNIT}                a time in ns, µs or ms
//	{value; NAME; UNIT}               a number
//	{share; NAME; OTHER; UNIT}        the one's value divided by the other's
//	{persecond; NAME; UNIT}           how often a second has room for a time, in two digits
//	{per; NAME; UNIT}                 the inverse of a value, in two digits
//	{command; MEASURE; RIVAL}         a ratio of bench/commands.txt
//	{commands}, {servers}             where and when bench/cmd/compare and bench/rls measured
//	{slowest}                         the slowest response of sluice serve while Redis is stopped
func (f Figures) number(hole string) (string, error) {
	args := strings.Split(hole, ";")
	for i := range args {
		args[i] = strings.TrimSpace(args[i])
	}
	value := func(name, unit string) (float64, error) {
		v, ok := f.Rows[name].Values[unit]
		if !ok {
			return 0, fmt.Errorf("bench/results.txt has no %q of %s", unit, name)
		}
		return v, nil
	}
	var v float64
	var err error
	switch kind, args := args[0], args[1:]; kind {
	case "machine":
		return f.Machine, nil
	case "dates":
		return f.dates(args[0])
	case "ratio":
		v, err = value(args[0]+" vs "+args[1], "ratio")
		return fmt.Sprintf("%.2f", v), err
	case "faster":
		v, err = value(args[0]+" vs "+args[1], "ratio")
		return digits(1/v, 2), err
	case "time":
		v, err = value(args[0], args[1])
		return duration(v), err
	case "value":
		v, err = value(args[0], args[1])
		return digits(v, 2), err
	case "share":
		v, err = value(args[0], args[2])
		if err != nil {
			return "", err
		}
		other, err := value(args[1], args[2])
		return fmt.Sprintf("%.2f", v/other), err
	case "persecond":
		v, err = value(args[0], args[1])
		return digits(1e9/v, 2), err
	case "per":
		v, err = value(args[0], args[1])
		return digits(1/v, 2), err
	case "command":
		for line := range strings.Lines(f.commands) {
			cells := cells(line)
			if len(cells) == 5 && cells[0] == args[0] && cells[1] == args[1] {
				return cells[4], nil
			}
		}
		return "", errors.New("bench/commands.txt has no such row")
	case "commands":
		return measuredOn(f.commands)
	case "servers":
		return measuredOn(f.servers)
	case "slowest":
		if m := slowest.FindStringSubmatch(f.servers); m != nil {
			return m[1] + " " + m[2], nil
		}
		return "", errors.New("bench/rls.txt has no such line")
	}
	return "", errors.New("unknown kind of number")
}

func measuredOn(output string) (string, error) {
	first, _, _ := strings.Cut(output, "\n")
	place, ok := strings.CutPrefix(first, machineMark)
	if !ok {
		return "", fmt.Errorf("the first line does not start with %q", machineMark)
	}
	return place, nil
}

var slowest = regexp.MustCompile(`Redis stopped, sluice, Redis: .* slowest after ([\d.]+)(ms)`)

// dates returns the days on which benchmarks were measured.
func (f Figures) dates(prefix string) (string, error) {
	var days []string
	for name, row := range f.Rows {
		if strings.HasPrefix(name, prefix) {
			days = append(days, row.Date)
		}
	}
	if len(days) == 0 {
		return "", errors.New("no rows")
	}
	first, err := time.Parse(time.DateOnly, slices.Min(days))
	if err != nil {
		return "", err
	}
	last, err := time.Parse(time.DateOnly, slices.Max(days))
	switch format := "2 January 2006"; {
	case first.Equal(last):
		return last.Format(format), err
	case first.Month() == last.Month() && first.Year() == last.Year():
		return first.Format("2") + " to " + last.Format(format), err
	default:
		return first.Format(format) + " to " + last.Format(format), err
	}
}

// digits rounds v to n digits, without zeros at the end, and groups those before the point by three.
func digits(v float64, n int) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return "0"
	}
	step := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))+1-float64(n))
	v = math.Round(v/step) * step
	if v < 1000 {
		text := strconv.FormatFloat(v, 'f', max(0, -int(math.Floor(math.Log10(step)))), 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// duration writes nanoseconds in three digits.
func duration(ns float64) string {
	switch {
	case ns < 1000:
		return digits(ns, 3) + " ns"
	case ns < 1e6:
		return digits(ns/1000, 3) + " µs"
	default:
		return digits(ns/1e6, 3) + " ms"
	}
}

func cells(line string) []string {
	all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
