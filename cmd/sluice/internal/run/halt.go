package run

import (
	"math"
	"regexp"
	"strconv"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// halt says after which results no more jobs start. The zero halt never stops the run.
type halt struct {
	now     bool    // also end running jobs
	counted string  // fail, success or done
	jobs    int     // number of jobs; 0: percent
	percent float64 // percentage of all jobs; 0: jobs
}

// tally counts the jobs that have failed, those that have ended, and all jobs, which is 0 if unknown.
type tally struct{ failed, finished, all int }

var haltText = regexp.MustCompile(`^(now|soon),(fail|success|done)=([0-9]+)(%?)$`)

func parseHalt(text string) (halt, error) {
	if text == "" || text == "never" {
		return halt{}, nil
	}
	m := haltText.FindStringSubmatch(text)
	if m == nil {
		return halt{}, cli.Usage("--halt %q is not WHEN,fail=N such as now,fail=1 or soon,fail=10%%; WHEN is now or soon, and success or done may stand for fail", text)
	}
	n, err := strconv.Atoi(m[3])
	if err != nil || n < 1 || m[4] != "" && n > 100 {
		return halt{}, cli.Usage("--halt %q is out of range; use N from 1, or from 1%% to 100%%", text)
	}
	h := halt{now: m[1] == "now", counted: m[2]}
	if m[4] != "" {
		h.percent = float64(n)
	} else {
		h.jobs = n
	}
	return h, nil
}

// reached reports whether enough jobs have ended. last is the result of the latest. If so, status is the exit status of the
// program, as in GNU parallel: that of the job if one job is enough, otherwise the number of failures, or their percentage.
func (h halt) reached(t tally, last result) (status int, reached bool) {
	n := t.finished
	switch h.counted {
	case "fail":
		n = t.failed
		reached = last.failed()
	case "success":
		n -= t.failed
		reached = !last.failed()
	case "done":
		reached = true
	}
	enough := float64(h.jobs)
	if h.percent > 0 {
		enough = h.percent * float64(t.all) / 100
	}
	switch {
	case !reached || float64(n) < enough:
		return 0, false
	case h.counted == "success":
		return 0, true
	case h.counted == "done" || enough != 1:
		return h.status(t), true
	case last.signal != 0:
		return 128 + last.signal, true
	case last.status < 0:
		return 255, true
	}
	return last.status, true
}

// status returns the number of failures, or their percentage if --halt asks for one.
func (h halt) status(t tally) int {
	if h.percent > 0 && h.counted == "fail" && t.all > 0 {
		return int(math.Ceil(float64(t.failed) * 100 / float64(t.all)))
	}
	return min(t.failed, maxStatus)
}

// maxStatus is the exit status for more than 100 failures.
const maxStatus = 101
