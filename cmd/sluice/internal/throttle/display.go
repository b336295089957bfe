package throttle

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// parts are what the display shows.
type parts struct{ bytes, timer, rate, average, eta, bar bool }

// orAll returns what is shown if nothing was asked for.
func (p parts) orAll() parts {
	if p == (parts{}) {
		return parts{bytes: true, timer: true, rate: true, eta: true, bar: true}
	}
	return p
}

// any reports whether somebody has asked for a part.
func (p parts) any() bool { return p != parts{} }

// moment is how far the copy is.
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

// read returns how far the copy is, and notes it for the rate.
func (m *meter) read() moment {
	now, permits := time.Since(m.j.begun), m.j.permits.Load()
	if len(m.marks) == 0 {
		m.marks = append(m.marks, mark{})
	}
	for len(m.marks) > 1 && now-m.marks[1].at >= rateWindow {
		m.marks = m.marks[1:]
	}
	v := moment{Bytes: m.j.bytes.Load(), Total: m.j.size, Elapsed: now.Seconds()}
	if m.j.lines {
		v.Lines = &permits
	}
	if span := now - m.marks[0].at; span > 0 {
		v.Rate = float64(permits-m.marks[0].permits) / span.Seconds()
	}
	m.marks = append(m.marks, mark{now, permits})
	return v
}

// done is what there is of the size.
func (v moment) done() int64 {
	if v.Lines != nil {
		return *v.Lines
	}
	return v.Bytes
}

// show shows the progress until the function that it returns is called.
func (j *job) show(o options) (stop func()) {
	m := &meter{j: j}
	switch o.style {
	case numeric:
		return every(o.every, func() { printNumber(m.read()) })
	case asJSON:
		return every(o.every, func() { printJSON(m.read()) })
	case forPeople:
		if line := cli.NewStatusLine(os.Stderr); line != nil {
			return j.showLine(o, line, m)
		}
	}
	return func() {}
}

// every calls f at an interval, until stop, which waits for its end.
func every(d time.Duration, f func()) (stop func()) {
	ticker, end := time.NewTicker(d), make(chan struct{})
	var w sync.WaitGroup
	w.Go(func() {
		for {
			select {
			case <-ticker.C:
				f()
			case <-end:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(end)
		w.Wait()
	}
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
func (j *job) showLine(o options, line *cli.StatusLine, m *meter) (stop func()) {
	j.mu.Lock()
	j.screen = line.Above(os.Stderr)
	j.mu.Unlock()
	draw := func() { line.Show(o.line(m.read(), line.Width())) }
	draw()
	stopDrawing := every(o.every, draw)
	return func() {
		stopDrawing()
		line.Clear()
	}
}

// line returns what the display shows, at most width characters with a bar.
func (o options) line(v moment, width int) string {
	u := o.unit()
	var words []string
	add := func(show bool, text string) {
		if show && text != "" {
			words = append(words, text)
		}
	}
	add(o.name != "", o.name+":")
	add(o.parts.bytes, u.show(float64(v.done())))
	add(o.parts.timer, clock(v.Elapsed))
	add(o.parts.rate, "["+u.show(v.Rate)+"/s]")
	add(o.parts.average, "("+u.show(float64(v.done())/max(v.Elapsed, 1e-9))+"/s)")
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
