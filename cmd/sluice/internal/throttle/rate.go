package throttle

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

var amount = regexp.MustCompile(`^\s*([A-Za-z]+\s+)?[0-9][0-9.A-Za-z_]*`)

// parseRate reads a rate as package spec does, except that "/s" may be left out. burst is the value of --burst, or empty.
func parseRate(typed, burst string) (spec.Limit, error) {
	text := wholeNumbers(typed)
	if !strings.Contains(text, "/") {
		text = amount.ReplaceAllString(text, "${0}/s")
	}
	if burst != "" {
		if n, err := parseSize(burst); err != nil || n == 0 {
			return spec.Limit{}, cli.Usage("--burst %q is not an amount such as 64KiB", burst)
		}
		if text != "unlimited" {
			text += " burst " + wholeNumbers(burst)
		}
	}
	l, err := spec.Parse(text)
	switch {
	case err != nil:
		return l, cli.Usage("--limit %q is not a rate such as 8MiB/s%s", typed, cli.RateFault(typed, err))
	case l.Kind == spec.Concurrency || l.Kind == spec.Blocked:
		return l, cli.Usage("--limit %q is not a rate such as 8MiB/s", typed)
	}
	return l, nil
}

var decimal = regexp.MustCompile(`([0-9]+\.[0-9]+)([kKMGT]i?)`)

// wholeNumbers writes numbers such as 1.5M without a point.
func wholeNumbers(text string) string {
	return decimal.ReplaceAllStringFunc(text, func(match string) string {
		parts := decimal.FindStringSubmatch(match)
		n, _ := strconv.ParseFloat(parts[1], 64)
		unit, _ := spec.Parse("1" + parts[2] + "/s")
		return strconv.FormatFloat(n*float64(unit.Permits), 'f', 0, 64)
	})
}

// parseSize reads a number of bytes, or of lines; 0 stands for an unknown one.
func parseSize(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	l, err := spec.Parse(wholeNumbers(text) + "/s")
	if err != nil || strings.ContainsAny(text, " /") {
		return 0, cli.Usage("--size %q is not a number of bytes such as 500000 or 10MiB", text)
	}
	return int64(l.Permits), nil
}

// changed returns twice or half the rate, as a signal asks for, or the rate itself if that overflows. Half of a rate without a
// whole half is the same number in twice the time.
func changed(l spec.Limit, s os.Signal) spec.Limit {
	switch {
	case s == cli.UserSignal1 && l.Permits <= math.MaxInt/2:
		l.Permits *= 2
	case s == cli.UserSignal2 && l.Permits%2 == 0:
		l.Permits /= 2
	case s == cli.UserSignal2 && l.Per <= math.MaxInt64/2:
		l.Per *= 2
	}
	return l
}
