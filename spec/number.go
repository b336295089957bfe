package spec

import (
	"math"
	"strconv"
	"strings"
	"time"
)

var units = map[string]uint64{
	"":  1,
	"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
	"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
}

// parseNumber returns the number that low spells, which is at least least; low occurs in word.
func parseNumber(word, low string, least int) (int, error) {
	end := 0
	for end < len(low) && (digit(low[end]) || low[end] == '_') {
		end++
	}
	digits, unit := low[:end], low[end:]
	switch {
	case strings.HasPrefix(unit, "."):
		return 0, wrong(word, "a fraction, want a whole number, such as 1/2s in place of 0.5/s")
	case strings.HasPrefix(unit, ","): // to some a fraction, to others a thousand
		return 0, wrong(word, "a comma, want a whole number such as 1_000")
	case digits == "":
		return 0, wrong(word, "want a whole number, such as 20")
	case !digit(digits[0]) || !digit(digits[end-1]) || strings.Contains(digits, "__"):
		return 0, wrong(word, "a stray _, want it between digits, as in 1_000")
	}
	factor, ok := units[strings.TrimSuffix(unit, "b")]
	if !ok {
		return 0, wrong(word, "unknown unit %q, want k, M, G, T, Ki, Mi, Gi or Ti, with or without B, or B alone", unit)
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(digits, "_", ""), 10, 64)
	switch {
	case err != nil || n > math.MaxInt/factor:
		return 0, wrong(word, "too large, want at most %d", math.MaxInt)
	case n*factor < uint64(least):
		return 0, wrong(word, "want at least %d", least)
	}
	return int(n * factor), nil
}

var times = map[string]time.Duration{
	"ns": time.Nanosecond, "nanosecond": time.Nanosecond, "nanoseconds": time.Nanosecond,
	"us": time.Microsecond, "microsecond": time.Microsecond, "microseconds": time.Microsecond,
	"µs": time.Microsecond, "μs": time.Microsecond, // the two letters that time.ParseDuration takes
	"ms": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
	"week": 7 * day, "weeks": 7 * day,
}

const day = 24 * time.Hour

// parseTime returns the time that low spells; low occurs in word.
func parseTime(word, low string) (time.Duration, error) {
	d, err := time.ParseDuration(low)
	if err != nil {
		var ok bool
		if d, ok = countedTime(low); !ok {
			return 0, wrong(word, "unknown time %q, want s, min, h, day or a duration such as 250ms", timeIn(word))
		}
	}
	if d <= 0 {
		return 0, wrong(word, "the time %q is not above 0", timeIn(word))
	}
	return d, nil
}

// timeIn returns the time in word as it was written.
func timeIn(word string) string {
	_, t, _ := strings.Cut(word, "/")
	return t
}

// countedTime is one of the names, or a whole number of them.
func countedTime(low string) (time.Duration, bool) {
	name := strings.TrimLeft(low, "0123456789_")
	unit, ok := times[name]
	if !ok || name == low {
		return unit, ok
	}
	n, err := parseNumber(low, low[:len(low)-len(name)], 0)
	if err != nil || int64(n) > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// formatTime returns d, above 0, in few letters.
func formatTime(d time.Duration) string {
	for _, unit := range []string{"ns", "us", "ms", "s", "min", "h", "day"} {
		if d == times[unit] {
			return unit
		}
	}
	s := strings.Replace(d.String(), "µ", "u", 1)
	for _, zero := range []string{"0s", "0m"} {
		if whole := strings.TrimSuffix(s, zero); !digit(whole[len(whole)-1]) {
			s = whole
		}
	}
	return s
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// lower returns s with its ASCII letters in lower case. It leaves other letters alone, because
// they have no meaning here and some would turn into one that has.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
