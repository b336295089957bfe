package throttle

import (
	"math"
	"math/big"
	"os"
	"regexp"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// parseRate reads a rate as package spec does, except that "/s" may be left out. burst is the value of --burst, or empty.
func parseRate(text, burst string) (spec.Limit, error) {
	typed := text
	if burst != "" {
		if n, err := parseSize(burst); err != nil || n == 0 {
			return spec.Limit{}, cli.Usage("--burst %q is not an amount such as 64KiB", burst)
		}
	}
	text, burst = wholeNumbers(text), wholeNumbers(burst)
	with := func(text string) string {
		if burst == "" || text == "unlimited" {
			return text
		}
		return text + " burst " + burst
	}
	l, err := spec.Parse(with(text))
	if err != nil {
		if l, err = spec.Parse(with(perSecond(text))); err != nil {
			return l, cli.Usage("--limit %q is not a rate such as 8MiB/s%s", typed, cli.RateFault(typed, err))
		}
	}
	if l.Kind == spec.Concurrency || l.Kind == spec.Blocked {
		return l, cli.Usage("--limit %q is not a rate such as 8MiB/s", typed)
	}
	return l, nil
}

var amount = regexp.MustCompile(`(?:^|\s)[0-9][0-9.A-Za-z_]*(?:\s|$)`)

// perSecond adds a missing "/s" after the amount.
func perSecond(text string) string {
	if strings.Contains(text, "/") {
		return text
	}
	at := amount.FindStringIndex(text)
	if at == nil {
		return text
	}
	end := at[0] + len(strings.TrimRight(text[at[0]:at[1]], " \t"))
	return text[:end] + "/s" + text[end:]
}

var decimal = regexp.MustCompile(`([0-9]+\.[0-9]+)([kKMGT]i?)`)

// wholeNumbers writes numbers such as 1.5M without a point. It leaves a number that is not a whole number of bytes.
func wholeNumbers(text string) string {
	return decimal.ReplaceAllStringFunc(text, func(match string) string {
		parts := decimal.FindStringSubmatch(match)
		n, ok := new(big.Rat).SetString(parts[1])
		if !ok {
			return match
		}
		base := int64(1000)
		if strings.HasSuffix(parts[2], "i") {
			base = 1024
		}
		for range 1 + strings.IndexByte("KMGT", strings.ToUpper(parts[2])[0]) {
			n.Mul(n, big.NewRat(base, 1))
		}
		if !n.IsInt() {
			return match
		}
		return n.Num().String()
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

var binaryPrefix = regexp.MustCompile(`(?i)[0-9][kmgt]i`)

// binaryUnit reports whether a rate is written in KiB, MiB …, and should be displayed in these units.
func binaryUnit(text string) bool { return binaryPrefix.MatchString(text) }

// rateChange returns how a signal changes the rate, or nil if it does not.
func rateChange(s os.Signal) func(spec.Limit) spec.Limit {
	switch s {
	case cli.UserSignal1:
		return doubled
	case cli.UserSignal2:
		return halved
	}
	return nil
}

// doubled returns twice the rate, or the rate itself if that overflows an int.
func doubled(l spec.Limit) spec.Limit {
	if l.Permits > math.MaxInt/2 {
		return l
	}
	l.Permits *= 2
	if l.Burst > 0 && l.Burst <= math.MaxInt/2 {
		l.Burst *= 2
	}
	return l
}

// halved returns half the rate: half the permits, or, if that is not a whole number, the same number in twice the time.
func halved(l spec.Limit) spec.Limit {
	switch {
	case l.Permits%2 == 0:
		l.Permits /= 2
	case l.Per <= math.MaxInt64/2:
		l.Per *= 2
	default:
		return l
	}
	if l.Burst > 1 && l.Burst != math.MaxInt {
		l.Burst = (l.Burst + 1) / 2
	}
	return l
}
