package throttle

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// parts are what the display shows.
type parts struct{ bytes, timer, rate, average, eta, bar bool }

// orAll returns p, or the default if the user has asked for nothing.
func (p parts) orAll() parts {
	if p == (parts{}) {
		return parts{bytes: true, timer: true, rate: true, eta: true, bar: true}
	}
	return p
}

// any reports whether the user has asked for a part.
func (p parts) any() bool { return p != parts{} }

// moment says how far the copy is.
type moment struct {
	Bytes   int64   `json:"bytes"`
	Lines   *int64  `json:"lines,omitempty"` // nil: not counted
	Total   int64   `json:"total"`           // 0: unknown; lines with -l
	Elapsed float64 `json:"elapsed"`         // seconds
	Rate    float64 `json:"rate"`            // bytes or lines per second, in about the last second
	Done    bool    `json:"done"`
}

// meter works out rates.
type meter struct {
	j     *job
	marks []mark // of about the last second
}

type mark struct {
	at      time.Duration
	permits int64
}

const rateWindow = time.Second

// read returns how far the copy is, and keeps it to work out the rate later.
func (m *meter) read() moment {
	now, permits := time.Since(m.j.start), m.j.sink.n.Load()
	v := moment{Bytes: permits, Total: m.j.total, Elapsed: now.Seconds()}
	if m.j.lines {
		permits = m.j.passed.Load()
		v.Lines = &permits
	}
	if len(m.marks) == 0 {
		m.marks = append(m.marks, mark{})
	}
	for len(m.marks) > 1 && now-m.marks[1].at >= rateWindow {
		m.marks = m.marks[1:]
	}
	if span := now - m.marks[0].at; span > 0 {
		v.Rate = float64(permits-m.marks[0].permits) / span.Seconds()
	}
	m.marks = append(m.marks, mark{now, permits})
	return v
}

// done returns the number of bytes, or lines, copied.
func (v moment) done() int64 {
	if v.Lines != nil {
		return *v.Lines
	}
	return v.Bytes
}

// show shows the progress until the function that it returns is called.
func (j *job) show() (stop func()) {
	m := &meter{j: j}
	switch j.style {
	case numeric:
		return cli.Every(time.Duration(j.every), func() { printNumber(m.read()) })
	case asJSON:
		return cli.Every(time.Duration(j.every), func() { printJSON(m.read()) })
	case forPeople:
		if line := cli.NewStatusLine(os.Stderr); line != nil {
			return j.showLine(line, m)
		}
	}
	return func() {}
}

func printNumber(v moment) {
	n := v.done()
	if v.Total > 0 {
		n = n * 100 / v.Total
	}
	_, _ = fmt.Fprintln(os.Stderr, n)
}

func printJSON(v moment) { _ = json.NewEncoder(os.Stderr).Encode(v) }

// showLine draws a line on the terminal in its place.
func (j *job) showLine(line *cli.StatusLine, m *meter) (stop func()) {
	j.mu.Lock()
	j.screen = line.Above(os.Stderr)
	j.mu.Unlock()
	draw := func() { line.Show(j.line(m.read(), line.Width())) }
	draw()
	stopDrawing := cli.Every(time.Duration(j.every), draw)
	return func() {
		stopDrawing()
		line.Clear()
	}
}

// line returns what the display shows, at most width characters with a bar.
func (o options) line(v moment, width int) string {
	var words []string
	add := func(show bool, text string) {
		if show && text != "" {
			words = append(words, text)
		}
	}
	add(o.name != "", o.name+":")
	add(o.parts.bytes, o.amount(float64(v.done())))
	add(o.parts.timer, clock(v.Elapsed))
	add(o.parts.rate, "["+o.amount(v.Rate)+"/s]")
	add(o.parts.average, "("+o.amount(float64(v.done())/max(v.Elapsed, 1e-9))+"/s)")
	before := len(words)
	if v.Total > 0 {
		add(o.parts.bar, fmt.Sprintf("%3d%%", min(v.done()*100/v.Total, 100)))
		add(o.parts.eta, eta(v))
	}
	if o.parts.bar && v.Total > 0 {
		room := width - len(strings.Join(words, " ")) - 1
		if bar := cli.Bar(room, float64(v.done())/float64(v.Total)); bar != "" {
			words = slices.Insert(words, before, bar)
		}
	}
	return strings.Join(words, " ")
}

// clock shows a time as pv does.
func clock(seconds float64) string {
	s := int64(seconds)
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

func eta(v moment) string {
	left := v.Total - v.done()
	if left <= 0 || v.Rate <= 0 {
		return ""
	}
	return "ETA " + clock(float64(left)/v.Rate)
}

// amount writes a number of bytes, or of lines.
func (o options) amount(n float64) string {
	base, infix, letters := 1000.0, "", "kMGTPE"
	if o.binary {
		base, infix, letters = 1024, "i", "KMGTPE"
	}
	prefix := ""
	for _, p := range letters {
		if n < base || o.lines {
			break
		}
		n /= base
		prefix = string(p) + infix
	}
	switch {
	case o.lines && n < 100:
		return fmt.Sprintf("%.1f lines", n)
	case o.lines:
		return fmt.Sprintf("%.0f lines", n)
	case prefix == "":
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.2f %sB", n, prefix)
}

// last prints the summary, or the last line of progress.
func (j *job) last(stopped, done bool) {
	v := (&meter{j: j}).read() // its rate is the average
	switch j.style {
	case silent:
	case numeric:
		if done || stopped {
			printNumber(v)
		}
	case asJSON:
		v.Done = done
		printJSON(v)
	case forPeople:
		if !stopped && !j.verbose && !cli.IsTerminal(os.Stderr) {
			return // otherwise cron would mail the summary
		}
		var b strings.Builder
		if stopped {
			b.WriteString("interrupted after ")
			b.WriteString(progressOf(v))
			b.WriteString("\n")
		}
		b.WriteString(j.summary(v))
		if j.name != "" {
			_, _ = fmt.Fprintf(os.Stderr, "%s: ", j.name)
		}
		_, _ = fmt.Fprintln(os.Stderr, b.String())
	}
}

func progressOf(v moment) string {
	what := "bytes"
	if v.Lines != nil {
		what = "lines"
	}
	if v.Total > 0 {
		return fmt.Sprintf("%d of %d %s", v.done(), v.Total, what)
	}
	return fmt.Sprintf("%d %s", v.done(), what)
}

// summary says how fast the copy was, and how far from the requested rate.
func (j *job) summary(v moment) string {
	text := fmt.Sprintf("%d bytes in %.3f s", v.Bytes, v.Elapsed)
	if v.Lines != nil {
		text = fmt.Sprintf("%d lines, %s", *v.Lines, text)
	}
	achieved := float64(v.done()) / max(v.Elapsed, 1e-9)
	text += fmt.Sprintf(": %s/s", j.amount(achieved))
	rate, always := j.pace.only()
	if rate.Kind != spec.TokenBucket || !always || j.schedule != nil {
		return text // unlimited, or several rates, or a window, whose permits come together
	}
	asked := float64(rate.Permits) / rate.Per.Seconds()
	if v.done() <= int64(burst(rate)) {
		return text // the first burst passes at any rate
	}
	return text + ", " + difference(achieved/asked-1, j.roundAmount(asked)+"/s")
}

// difference says how far the result is from the request: 8.6 % below the 100 MB/s asked for.
func difference(by float64, asked string) string {
	switch percent := 100 * math.Abs(by); {
	case percent < 0.05:
		return "the " + asked + " asked for"
	case by < 0:
		return fmt.Sprintf("%.1f %% below the %s asked for", percent, asked)
	default:
		return fmt.Sprintf("%.1f %% above the %s asked for", percent, asked)
	}
}

// roundAmount is amount without trailing zeros: 100 MB.
func (o options) roundAmount(n float64) string {
	number, what, _ := strings.Cut(o.amount(n), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + what
}
