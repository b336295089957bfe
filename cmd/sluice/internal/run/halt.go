package run

import (
	"errors"
	"math"
	"regexp"
	"strconv"
)

// halt says after how many failed jobs no more jobs start. The zero halt never stops the run.
type halt struct {
	now     bool // also end running jobs
	percent bool // n is a percentage of all jobs
	n       int  // 0: never
}

var haltText = regexp.MustCompile(`^(now|soon),fail=([0-9]+)(%?)$`)

func parseHalt(text string) (halt, error) {
	if text == "never" {
		return halt{}, nil
	}
	m := haltText.FindStringSubmatch(text)
	if m == nil {
		return halt{}, errors.New("is not WHEN,fail=N such as now,fail=1 or soon,fail=10%; WHEN is now or soon")
	}
	h := halt{now: m[1] == "now", percent: m[3] != ""}
	var err error
	if h.n, err = strconv.Atoi(m[2]); err != nil || h.n < 1 || h.percent && h.n > 100 {
		return halt{}, errors.New("is out of range; use N from 1, or from 1% to 100%")
	}
	return h, nil
}

// reached reports whether enough of all jobs have failed. last is the result of the latest failed job. If so, status is the exit
// status of the program, as in GNU parallel: that of the job if one job is enough.
func (h halt) reached(failed, all int, last result) (status int, reached bool) {
	enough := float64(h.n)
	if h.percent {
		enough *= float64(all) / 100
	}
	switch {
	case h.n == 0 || float64(failed) < enough:
		return 0, false
	case enough != 1:
		return h.status(failed, all), true
	case last.signal != 0:
		return 128 + last.signal, true
	case last.status < 0:
		return 255, true
	}
	return last.status, true
}

// status returns the number of failures, or their percentage if --halt asks for one.
func (h halt) status(failed, all int) int {
	if h.percent && all > 0 {
		return int(math.Ceil(float64(failed) * 100 / float64(all)))
	}
	return min(failed, maxStatus)
}

// maxStatus is the exit status for more than 100 failures.
const maxStatus = 101
