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
	hour, minute, second int
	limit                spec.Limit
}

// parseSchedule reads "08:00,512kB/s 12:00,10MB/s 23:00,unlimited".
func parseSchedule(text, burst string) (schedule, error) {
	var s schedule
	for word := range strings.FieldsSeq(text) {
		clock, rate, ok := strings.Cut(word, ",")
		if !ok {
			return nil, cli.Usage("--schedule %q is not a time and a rate such as 08:00,512kB/s", word)
		}
		at, err := time.Parse("15:04", clock)
		if err != nil {
			if at, err = time.Parse("15:04:05", clock); err != nil {
				return nil, cli.Usage("--schedule %q: %q is not a time of day such as 08:00", word, clock)
			}
		}
		l, err := parseRate(rate, burst)
		if err != nil {
			return nil, cli.Usage("--schedule %q: %s", word, strings.TrimPrefix(err.Error(), "--limit "))
		}
		s = append(s, entry{at.Hour(), at.Minute(), at.Second(), l})
	}
	if len(s) == 0 {
		return nil, cli.Usage("--schedule is empty; write times and rates such as 08:00,512kB/s")
	}
	slices.SortStableFunc(s, func(a, b entry) int { return a.clock() - b.clock() })
	for i := 1; i < len(s); i++ {
		if s[i].clock() == s[i-1].clock() {
			return nil, cli.Usage("--schedule has two rates for %02d:%02d:%02d", s[i].hour, s[i].minute, s[i].second)
		}
	}
	return s, nil
}

// clock returns the seconds since midnight on a day on which the clocks do not change.
func (e entry) clock() int { return (e.hour*60+e.minute)*60 + e.second }

// on returns the instant at which e starts on the day of t. If the clocks skip that time of day, e starts when they do, so
// that entries keep their order.
func (e entry) on(t time.Time) time.Time {
	at := time.Date(t.Year(), t.Month(), t.Day(), e.hour, e.minute, e.second, 0, t.Location())
	shown := entry{hour: at.Hour(), minute: at.Minute(), second: at.Second()}.clock()
	switch start, end := at.ZoneBounds(); {
	case shown > e.clock():
		return start
	case shown < e.clock():
		return end
	}
	return at
}

// at returns the rate that applies at an instant.
func (s schedule) at(t time.Time) spec.Limit {
	limit := s[len(s)-1].limit
	for _, e := range s {
		if e.on(t).After(t) {
			break
		}
		limit = e.limit
	}
	return limit
}
