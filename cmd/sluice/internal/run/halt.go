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
// then the program's, as parallel has it: that of the one job, the number of failures, or their percentage.
func (h halt) reached(failed, jobs int, last result) (status int, reached bool) {
	switch {
	case h.fail == 1 && failed >= 1:
		if last.signal != 0 {
			return 128 + last.signal, true
		}
		if last.status < 0 {
			return 255, true
		}
		return last.status, true
	case h.fail > 1 && failed >= h.fail:
		return min(failed, mostStatus), true
	case h.percent > 0 && float64(failed)*100 >= h.percent*float64(jobs):
		return int(math.Ceil(float64(failed) * 100 / float64(jobs))), true
	}
	return 0, false
}

// mostStatus stands for more failures than a status can count.
const mostStatus = 101
