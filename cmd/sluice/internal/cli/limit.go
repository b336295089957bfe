package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-go/sluice/spec"
)

// ParseLimits reads the limits of a flag. counted is what the command counts, such as jobs: an amount of bytes is an error. The error
// follows the flag and its value, as pflag has it.
func ParseLimits(text, counted string) (spec.Limits, error) {
	limits, err := spec.ParseLimits(text)
	if err != nil {
		return nil, errors.New("is not a limit such as 100/s: " + LimitFault(text, err))
	}
	return limits, NoBytes(limits, counted)
}

// NoBytes returns an error if one of the limits is an amount of bytes.
func NoBytes(limits spec.Limits, counted string) error {
	for _, l := range limits {
		if l.Bytes {
			return fmt.Errorf("is an amount of bytes, but %s are counted; write a number such as 10/s, without B", counted)
		}
	}
	return nil
}

// evenTime is the time whose permits may become available together in a limit that is even.
const evenTime = 10 * time.Millisecond

// Patient returns the limits for a command that keeps an even pace and waits as long as necessary. A bucket without a burst gets the
// permits of 10 ms, at least 1, and the queue has no bound.
func Patient(limits spec.Limits) spec.Limits {
	patient := slices.Clone(limits)
	for i := range patient {
		l := &patient[i]
		if l.Kind == spec.TokenBucket && l.Burst == 0 {
			l.Burst = int(max(1, min(float64(l.Permits)*float64(evenTime)/float64(l.Per), 1e6)))
		}
		if l.Kind != spec.Unlimited && l.Kind != spec.Blocked && l.Kind != spec.Paused {
			l.Queue = math.MaxInt
		}
	}
	return patient
}

// Unlimited reports whether limits limit nothing.
func Unlimited(limits spec.Limits) bool {
	return !slices.ContainsFunc(limits, func(l spec.Limit) bool { return l.Kind != spec.Unlimited })
}

// LimitFault returns the error of a limit that package spec cannot read, without the text itself, which the caller
// quotes.
func LimitFault(text string, err error) string {
	if joined := strings.Join(strings.Fields(text), ""); joined != text {
		if _, err := spec.Parse(joined); err == nil {
			return "write " + joined + ", without a space"
		}
	}
	message := strings.TrimPrefix(err.Error(), "spec: ")
	for _, quoted := range []string{text, text + "/s"} {
		message = strings.TrimPrefix(message, strconv.Quote(quoted)+": ")
	}
	return message
}

// RateFault is LimitFault with a colon in front, for a flag that accepts only rates. It is "" for an unknown word, because the
// error would then list kinds of limits that are not rates.
func RateFault(text string, err error) string {
	reason := LimitFault(text, err)
	if strings.HasPrefix(reason, "unknown kind") {
		return ""
	}
	return ": " + reason
}
