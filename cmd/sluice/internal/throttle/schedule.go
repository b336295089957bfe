package throttle

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/spec"
)

// schedule lists rates and the times of day at which they start, in order. Before the first entry, the last one applies.
type schedule []entry

type entry struct {
	start  int // seconds since midnight, as a clock shows them
	limits spec.Limits
}

// parseSchedule reads "08:00,512kB/s 12:00,10MB/s 23:00,unlimited".
func (o *options) parseSchedule(text, burst string) (schedule, error) {
	var s schedule
	for word := range strings.FieldsSeq(text) {
		clock, rate, ok := strings.Cut(word, ",")
		if !ok {
			return nil, cli.Usage("--schedule %q is not a time and a rate such as 08:00,512kB/s", word)
		}
		at, err := time.Parse("15:04", clock)
		if err != nil {
			if at, err = time.Parse(time.TimeOnly, clock); err != nil {
				return nil, cli.Usage("--schedule %q: %q is not a time of day such as 08:00", word, clock)
			}
		}
		l, err := o.parseRate(rate, burst)
		if err != nil {
			return nil, cli.Usage("--schedule %q: %s", word, strings.TrimPrefix(err.Error(), "--limit "))
		}
		if slices.ContainsFunc(s, func(e entry) bool { return e.start == secondOf(at) }) {
			return nil, cli.Usage("--schedule has two rates for %s", clock)
		}
		s = append(s, entry{secondOf(at), l})
	}
	if len(s) == 0 {
		return nil, cli.Usage("--schedule is empty; write times and rates such as 08:00,512kB/s")
	}
	slices.SortFunc(s, func(a, b entry) int { return a.start - b.start })
	return s, nil
}

// secondOf returns the time of day in seconds.
func secondOf(t time.Time) int { return (t.Hour()*60+t.Minute())*60 + t.Second() }

// at returns the rate that applies at a given time.
func (s schedule) at(t time.Time) spec.Limits {
	limits := s[len(s)-1].limits
	for _, e := range s {
		if e.start <= secondOf(t) {
			limits = e.limits
		}
	}
	return limits
}
