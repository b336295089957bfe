package throttle

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// parts are what the display shows.
type parts struct{ bytes, timer, rate, average, eta, bar bool }

// moment says how far the copy is.
type moment struct {
	Bytes   int64   `json:"bytes"`
	Lines   *int64  `json:"lines,omitempty"` // nil if not counted
	Total   int64   `json:"total"`           // 0: unknown; lines with -l
	Elapsed float64 `json:"elapsed"`         // seconds
	Rate    float64 `json:"rate"`            // bytes or lines per second, since the last time that it was shown
	Done    bool    `json:"done"`
}

// since returns how far the copy is; last is what was shown last.
func (j *job) since(last moment) moment {
	v := moment{Bytes: j.sink.n.Load(), Total: j.total, Elapsed: time.Since(j.start).Seconds()}
	if j.lines {
		lines := j.passed.Load()
		v.Lines = &lines
	}
	v.Rate = float64(v.done()-last.done()) / max(v.Elapsed-last.Elapsed, 1e-9)
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
	var v moment
	stopDrawing := cli.Every(time.Duration(j.every), func() {
		v = j.since(v)
		if !j.print(v) && j.screen != nil {
			j.screen.Show(j.line(v, j.screen.Width()))
		}
	})
	return func() {
		stopDrawing()
		j.screen.Clear()
	}
}

// print prints the progress for programs, unless it is for people.
func (j *job) print(v moment) bool {
	switch {
	case j.progress != "":
		_ = json.NewEncoder(os.Stderr).Encode(v)
	case j.numeric && v.Total > 0:
		_, _ = fmt.Fprintln(os.Stderr, v.done()*100/v.Total)
	case j.numeric:
		_, _ = fmt.Fprintln(os.Stderr, v.done())
	default:
		return false
	}
	return true
}

// line returns what the display shows, at most width characters with a bar.
func (o *options) line(v moment, width int) string {
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
	if v.Total <= 0 {
		return strings.Join(words, " ")
	}
	before := len(words)
	add(o.parts.bar, fmt.Sprintf("%3d%%", min(v.done()*100/v.Total, 100)))
	if left := v.Total - v.done(); left > 0 && v.Rate > 0 {
		add(o.parts.eta, "ETA "+clock(float64(left)/v.Rate))
	}
	room := width - len(strings.Join(words, " ")) - 1
	if bar := cli.Bar(room, float64(v.done())/float64(v.Total)); o.parts.bar && bar != "" {
		words = slices.Insert(words, before, bar)
	}
	return strings.Join(words, " ")
}

// clock shows a time as pv does.
func clock(seconds float64) string {
	s := int64(seconds)
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// amount writes a number of bytes, or of lines.
func (o *options) amount(n float64) string {
	if o.lines {
		return fmt.Sprintf("%.1f lines", n)
	}
	base, infix, letters := 1000.0, "", "kMGTPE"
	if o.binary {
		base, infix, letters = 1024, "i", "KMGTPE"
	}
	if n < base {
		return fmt.Sprintf("%.0f B", n)
	}
	n /= base
	for n >= base && len(letters) > 1 {
		n /= base
		letters = letters[1:]
	}
	return fmt.Sprintf("%.2f %c%sB", n, letters[0], infix)
}

// last prints the summary, or the last line of progress.
func (j *job) last(stopped, done bool) {
	v := j.since(moment{})
	v.Done = done
	if j.print(v) || j.quiet || !stopped && !j.verbose && !cli.IsTerminal(os.Stderr) {
		return // without a terminal, cron would mail the summary
	}
	text := j.summary(v)
	if stopped {
		text = "interrupted after " + text
	}
	if j.name != "" {
		text = j.name + ": " + text
	}
	_, _ = fmt.Fprintln(os.Stderr, text)
}

// summary says how fast the copy was, and how far from the requested rate.
func (j *job) summary(v moment) string {
	text := strconv.FormatInt(v.done(), 10)
	if v.done() < v.Total {
		text += fmt.Sprintf(" of %d", v.Total)
	}
	what := "bytes"
	if j.lines {
		what = "lines"
	}
	text += fmt.Sprintf(" %s in %.3f s: %s/s", what, v.Elapsed, j.amount(v.Rate))
	limits, constant := j.pace.current()
	if len(limits) != 1 || limits[0].Kind != spec.TokenBucket || !constant || j.schedule != nil || v.done() <= int64(burst(limits[0])) {
		return text // there is no one rate to compare with, or the first burst passes at any rate
	}
	rate := limits[0]
	asked := float64(rate.Permits) / rate.Per.Seconds()
	difference := math.Round(1000*(v.Rate/asked-1)) / 10
	return text + fmt.Sprintf(", %+.1f %% from %v", difference+0, rate) // -0 + 0 is 0
}
