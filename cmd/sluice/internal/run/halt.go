package run

import (
	"math"
	"regexp"
	"strconv"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// halt says when failures end it all.
type halt struct {
	now     bool    // end what runs, too
	fail    int     // as many failures; 0: never
	percent float64 // of all jobs; 0: see fail
}

var haltText = regexp.MustCompile(`^(now|soon),fail=([0-9]+)(%?)$`)

func parseHalt(text string) (halt, error) {
	if text == "" || text == "never" {
		return halt{}, nil
	}
	m := haltText.FindStringSubmatch(text)
	if m == nil {
		return halt{}, cli.Usage("--halt %q, want now,fail=N, soon,fail=N or either with N%%", text)
	}
	n, err := strconv.Atoi(m[2])
	if err != nil || n < 1 || m[3] != "" && n > 100 {
		return halt{}, cli.Usage("--halt %q: want N from 1, or from 1%% to 100%%", text)
	}
	h := halt{now: m[1] == "now"}
	if m[3] != "" {
		h.percent = float64(n)
	} else {
		h.fail = n
	}
	return h, nil
}

// reached reports whether that many failures of all jobs are enough; last is how the last of them ended. The status is
// then the program's, as parallel has it: that of the job if one is enough, the number of failures, or their percentage.
func (h halt) reached(failed, jobs int, last result) (status int, reached bool) {
	enough := float64(h.fail)
	if h.percent > 0 {
		enough = h.percent * float64(jobs) / 100
	}
	switch {
	case enough == 0 || float64(failed) < enough:
		return 0, false
	case enough != 1:
		return h.status(failed, jobs), true
	case last.signal != 0:
		return 128 + last.signal, true
	case last.status < 0:
		return 255, true
	}
	return last.status, true
}

// status is that of so many failures: their number, or their percentage if that is what was asked about.
func (h halt) status(failed, jobs int) int {
	if h.percent > 0 && jobs > 0 {
		return int(math.Ceil(float64(failed) * 100 / float64(jobs)))
	}
	return min(failed, mostStatus)
}

// mostStatus stands for more failures than a status can count.
const mostStatus = 101
