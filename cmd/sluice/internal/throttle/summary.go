package throttle

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// unit is what a permit is, as it is shown.
type unit struct{ lines, binary bool }

func (o options) unit() unit { return unit{o.lines, o.binary} }

// show writes a number of bytes, or of lines.
func (u unit) show(n float64) string {
	base, infix, letters := 1000.0, "", "kMGTPE"
	if u.binary {
		base, infix, letters = 1024, "i", "KMGTPE"
	}
	prefix := ""
	for _, p := range letters {
		if n < base || u.lines {
			break
		}
		n /= base
		prefix = string(p) + infix
	}
	switch {
	case u.lines && n < 100:
		return fmt.Sprintf("%.1f lines", n)
	case u.lines:
		return fmt.Sprintf("%.0f lines", n)
	case prefix == "":
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.2f %sB", n, prefix)
}

// last writes what is due at the end: the summary, or the last line of progress.
func (j *job) last(o options, stopped, done bool) {
	v := (&meter{j: j}).read() // its rate is the average
	switch o.style {
	case silent:
	case numeric:
		if done || stopped {
			printNumber(v)
		}
	case asJSON:
		v.Done = done
		printJSON(v)
	case forPeople:
		if !stopped && !o.verbose && !cli.IsTerminal(os.Stderr) {
			return // cron would send it
		}
		var b strings.Builder
		if stopped {
			b.WriteString("interrupted after ")
			b.WriteString(progressOf(v))
			b.WriteString("\n")
		}
		b.WriteString(j.summary(o, v))
		if o.name != "" {
			_, _ = fmt.Fprintf(os.Stderr, "%s: ", o.name)
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

// summary says how fast it was, and how far off the rate that was asked for.
func (j *job) summary(o options, v moment) string {
	u, took := o.unit(), max(v.Elapsed, 1e-9)
	text := fmt.Sprintf("%d bytes in %.3f s", v.Bytes, v.Elapsed)
	if v.Lines != nil {
		text = fmt.Sprintf("%d lines, %s", *v.Lines, text)
	}
	achieved := float64(v.done()) / took
	text += fmt.Sprintf(": %s/s", u.show(achieved))
	rate, always := j.pace.first()
	if rate.Kind != spec.TokenBucket || !always || o.schedule != nil {
		return text // no rate, or more than one, or one that comes in lumps
	}
	asked := float64(rate.Permits) / rate.Per.Seconds()
	if v.done() <= int64(atOnce(rate)) {
		return text // the first burst passes at any rate
	}
	return text + ", " + difference(achieved/asked-1, u.round(asked)+"/s")
}

// difference says how far off something was: 8.6 % below the 100 MB/s asked for.
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

// round is show without zeros at the end: 100 MB.
func (u unit) round(n float64) string {
	number, what, _ := strings.Cut(u.show(n), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + what
}
