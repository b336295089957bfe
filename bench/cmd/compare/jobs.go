package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// starts measures how many jobs that do nothing are run per second.
func (b bench) starts() error {
	header("Jobs of /bin/true per second, 2 at a time:")
	for _, rival := range []struct {
		name, line string
		jobs       int
	}{
		{"xargs -P", "seq %d | xargs -P2 -n1 /bin/true", b.jobs},
		{"GNU parallel", "seq %d | parallel -j2 /bin/true", b.jobs / 5},
	} {
		r := row{what: "input lines to /bin/true", format: func(v float64) string { return fmt.Sprintf("%.0f/s", v) }}
		for range b.rounds {
			for _, of := range []struct {
				line string
				to   *[]float64
			}{{"seq %d | sluice run -j2 /bin/true", &r.ours}, {rival.line, &r.theirs}} {
				start := time.Now()
				if err := b.command(fmt.Sprintf(of.line, rival.jobs)).Run(); err != nil {
					return err
				}
				*of.to = append(*of.to, float64(rival.jobs)/time.Since(start).Seconds())
			}
		}
		r.print(rival.name)
	}
	return nil
}

// startRate measures how exactly a rate of starts is kept, by the start times in the joblogs.
func (b bench) startRate() error {
	say("\nHow a rate of starts is kept, %d s each (parallel's only way is a delay between two):\n\n", b.seconds)
	say("| rate | program | error |\n|---|---|--:|\n")
	for _, rate := range []int{10, 50, 100} {
		for _, of := range []struct{ name, line string }{
			{"sluice", fmt.Sprintf("sluice run -j8 --rate %d/s --joblog log /bin/true", rate)},
			{"parallel --delay", fmt.Sprintf("parallel -j8 --delay %g --joblog log /bin/true", 1/float64(rate))},
		} {
			n := rate * b.seconds
			if err := b.command(fmt.Sprintf("rm -f log; seq %d | %s", n, of.line)).Run(); err != nil {
				return err
			}
			achieved, err := b.logged()
			if err != nil {
				return err
			}
			say("| %d/s | %s | %+.2f %% |\n", rate, of.name, 100*(achieved/float64(rate)-1))
		}
	}
	return nil
}

// logged returns the starts per second that a joblog tells of.
func (b bench) logged() (float64, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		return 0, err
	}
	first, last, n := 0.0, 0.0, 0
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(line, "\t")
		at, err := strconv.ParseFloat(columns[2], 64)
		if err != nil {
			continue // the header
		}
		if n == 0 || at < first {
			first = at
		}
		last = max(last, at)
		n++
	}
	return float64(n-1) / (last - first), nil
}
