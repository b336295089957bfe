package throttle

import (
	"math"
	"math/big"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/rates"
	"github.com/sluice-go/sluice/spec"
)

// parseRate reads a rate as package spec does; "/s" may be left out. burst, if any, is that of --burst.
func parseRate(text, burst string) (spec.Limit, error) {
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
			return l, cli.Usage("%s", strings.TrimPrefix(err.Error(), "spec: "))
		}
	}
	if l.Kind == spec.Concurrency {
		return l, cli.Usage("%q is no rate, want one such as 8MiB/s", text)
	}
	if l.Kind != spec.Unlimited {
		l.Queue = math.MaxInt // the copy waits as long as it takes
	}
	return l, nil
}

var amount = regexp.MustCompile(`(?:^|\s)[0-9][0-9.A-Za-z_]*(?:\s|$)`)

// perSecond adds the "/s" that was left out behind the amount.
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

// wholeNumbers writes numbers such as 1.5M without a point. A number of bytes that is not whole stays as it is.
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
		return 0, cli.Usage("--size %q, want a number of bytes such as 500000 or 10MiB", text)
	}
	return int64(l.Permits), nil
}

var binaryPrefix = regexp.MustCompile(`(?i)[0-9][kmgt]i`)

// binaryUnit reports whether a rate is written in KiB, MiB …, and is to be shown so.
func binaryUnit(text string) bool { return binaryPrefix.MatchString(text) }

// rateChange returns what a signal makes of the rate; nil if it is about something else.
func rateChange(s os.Signal) func(spec.Limit) spec.Limit {
	switch s {
	case cli.UserSignal1:
		return doubled
	case cli.UserSignal2:
		return halved
	}
	return nil
}

// doubled returns twice a rate, as far as an int holds it.
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

// halved returns half of a rate: half the permits, or where that is no whole number, as many in twice the time.
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

// terms returns the buckets of a rate.
func terms(l spec.Limit) (mean, peak core.TokenBucketOptions) {
	mean = bucket(l.Permits, l.Per, max(l.Burst, permitsIn(l, owedTime)), time.Millisecond)
	peak = bucket(l.Permits, max(l.Per-l.Per/5, 1), atOnce(l), 10*time.Microsecond) // a quarter more
	mean.QueueLimit, peak.QueueLimit = math.MaxInt, math.MaxInt
	return mean, peak
}

// bucket returns a bucket whose permits come in about so long a period, or one by one where that takes longer: at the
// very rate, the period being rounded up to the nanosecond.
func bucket(permits int, per time.Duration, limit int, period time.Duration) core.TokenBucketOptions {
	limit = max(limit, 1)
	rate := rates.AtMost(min(max(rates.Within(permits, per, period), 1), limit), permits, per)
	return core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: rate.Tokens, ReplenishmentPeriod: rate.Period}
}

// atOnce is what may pass at once.
func atOnce(l spec.Limit) int { return max(l.Burst, slice(l)) }

// slice is how much is paid for at once: what comes in a short time, so that the output is smooth.
func slice(l spec.Limit) int {
	switch l.Kind {
	case spec.Unlimited:
		return mostSlice
	case spec.TokenBucket:
		return max(min(permitsIn(l, sliceTime), mostSlice), 1)
	}
	return max(min(l.Permits/1000, mostSlice), 1) // a window's are there at once
}

// permitsIn returns how many permits a rate gives in d, rounded down.
func permitsIn(l spec.Limit, d time.Duration) int { return rates.Within(l.Permits, l.Per, d) }
