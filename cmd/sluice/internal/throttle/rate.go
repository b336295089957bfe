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

// parseRate reads limits as package spec does, except that "/s" may be left out. burst is the value of --burst, or empty.
func (o *options) parseRate(typed, burst string) (spec.Limits, error) {
	if burst != "" {
		switch n, err := o.parseSize("--burst", burst, "an amount such as 64KiB"); {
		case err != nil:
			return nil, err
		case n == 0:
			return nil, cli.Usage("--burst 0 lets nothing pass; use at least 1")
		case typed == "unlimited" && o.timetable == "":
			return nil, cli.Usage("--burst requires a rate, such as --limit 8MiB/s")
		}
	}
	texts := strings.Split(wholeNumbers(typed), ",")
	for i, text := range texts {
		kind, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		if !strings.Contains(text, "/") && !strings.EqualFold(kind, spec.Concurrency.String()) {
			text = amount.ReplaceAllString(text, "${0}/s")
		}
		if burst != "" && strings.ContainsRune(text, '/') {
			text += " burst " + wholeNumbers(burst)
		}
		texts[i] = text
	}
	limits, err := spec.ParseLimits(strings.Join(texts, ","))
	if err != nil {
		return nil, cli.Usage("--limit %q is not a rate such as 8MiB/s%s", typed, cli.RateFault(typed, err))
	}
	for _, l := range limits {
		switch {
		case l.Kind == spec.Concurrency || l.Kind == spec.Blocked || l.Kind == spec.Paused && o.timetable == "":
			return nil, cli.Usage("--limit %q is not a rate such as 8MiB/s", typed)
		case l.Queue > 0:
			return nil, cli.Usage("--limit %q has a queue, which has no effect on a copy; leave it out", typed)
		case o.lines && l.Bytes:
			return nil, cli.Usage("--limit %q is an amount of bytes, but -l counts lines; write a number of lines such as 100/s", typed)
		}
	}
	return limits, nil
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

// missingUnit returns an error for -L 20 MB/s: the second word is read as a file, and the rate is 20 bytes a second.
func (o *options) missingUnit() error {
	if o.files[0] == "-" || strings.Trim(o.rate, "0123456789_") != "" {
		return nil
	}
	_, err := spec.Parse("1" + strings.TrimSuffix(o.files[0], "/s") + "/s")
	if _, missing := os.Stat(o.files[0]); err == nil && missing != nil {
		return cli.Usage("--limit %s %s has a space in it; write %[1]s%[2]s", o.rate, o.files[0])
	}
	return nil
}

// parseSize reads a number of bytes, or of lines, which is the value of a flag; 0 stands for an unknown one. want is for an error.
func (o *options) parseSize(flag, text, want string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	l, err := spec.Parse(wholeNumbers(text) + "/s")
	switch {
	case err != nil || strings.ContainsAny(text, " /"):
		return 0, cli.Usage("%s %q is not %s", flag, text, want)
	case o.lines && l.Bytes:
		return 0, cli.Usage("%s %q is an amount of bytes, but -l counts lines; write a number of lines such as 100", flag, text)
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
