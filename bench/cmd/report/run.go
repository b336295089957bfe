package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice/bench/internal/sidebyside"
)

// runner runs measurements and keeps their output.
type runner struct {
	binaries string            // folder of the test binaries
	built    map[string]string // package's folder to binary; "": does not build
	failed   []error
}

// tooLong ends a process that hangs. The longest takes some 30 seconds.
const tooLong = 10 * time.Minute

// build compiles the benchmarks of the measurements, each package once.
func (r *runner) build(ctx context.Context, ms []measurement) {
	r.built = map[string]string{}
	for _, m := range ms {
		if _, done := r.built[m.folder]; done {
			continue
		}
		fmt.Fprintf(os.Stderr, "build %s\n", m.folder)
		binary := filepath.Join(r.binaries, m.folder+".test")
		out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+m.folder).CombinedOutput()
		if err != nil {
			r.failed = append(r.failed, fmt.Errorf("build %s: %w\n%s", m.folder, err, out))
			binary = ""
		}
		r.built[m.folder] = binary
	}
}

// run runs a measurement once and returns what it printed. Every other round runs the
// implementations in reverse.
func (r *runner) run(ctx context.Context, m measurement, benchtime string, round int) ([]byte, error) {
	binary := r.built[m.folder]
	if binary == "" {
		return nil, fmt.Errorf("%s: its package does not build", m.name)
	}
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.bench="+m.pattern(), "-test.benchtime="+benchtime,
		"-test.timeout="+tooLong.String())
	c.Dir = m.folder
	c.Env = os.Environ()
	if round%2 == 1 {
		c.Env = append(c.Env, sidebyside.ReverseVariable+"=1")
	}
	if m.folder == memoryFolder {
		c.Env = append(c.Env, sidebyside.FullVariable+"=1")
	}
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", m.name, err, out)
	}
	return out, nil
}

// effort says how long to measure.
type effort struct {
	rounds, curveRounds, memoryRounds int
	benchtime, curveBenchtime         time.Duration
}

func (e effort) of(m measurement) (rounds int, benchtime string) {
	switch {
	case m.folder == memoryFolder:
		return e.memoryRounds, "1x"
	case m.curve != nil:
		return e.curveRounds, e.curveBenchtime.String()
	default:
		return e.rounds, e.benchtime.String()
	}
}

// measure runs all measurements, a round of each before the next, so that a noisy minute
// spoils a round of some and not all of one. A measurement's file in folder is replaced when
// all its rounds are done; what failed keeps its old one.
func (r *runner) measure(ctx context.Context, ms []measurement, e effort, folder, header string) error {
	output := map[string]*bytes.Buffer{}
	spoilt := map[string]bool{}
	most, total, done := 0, 0, 0
	for _, m := range ms {
		rounds, _ := e.of(m)
		most, total = max(most, rounds), total+rounds
		output[m.name] = bytes.NewBufferString(header)
	}
	start := time.Now()
	before, after := "", "\n"
	if i, err := os.Stderr.Stat(); err == nil && i.Mode()&os.ModeCharDevice != 0 {
		before, after = "\r\x1b[K", "" // a terminal: one line, again and again
	}
	for round := range most {
		for _, m := range ms {
			rounds, benchtime := e.of(m)
			if round >= rounds || spoilt[m.name] {
				continue
			}
			done++
			fmt.Fprintf(os.Stderr, "%s%4d of %d after %s: %s, round %d of %d%s", before, done, total,
				time.Since(start).Round(time.Second), m.name, round+1, rounds, after)
			out, err := r.run(ctx, m, benchtime, round)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "\n%v\n", err)
				r.failed = append(r.failed, err)
				spoilt[m.name] = true
				continue
			}
			output[m.name].Write(out)
			if round == rounds-1 {
				if err := os.WriteFile(filepath.Join(folder, m.name+".txt"), output[m.name].Bytes(), 0o644); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprint(os.Stderr, "\n")
	return nil
}

// quick runs each benchmark once and checks that each measurement and each line of the
// table finds its figures. It writes nothing.
func (r *runner) quick(ctx context.Context, ms []measurement) {
	output := map[string][]byte{}
	for _, m := range ms {
		if _, done := output[m.folder]; done || r.built[m.folder] == "" {
			continue
		}
		c := exec.CommandContext(ctx, r.built[m.folder], "-test.bench=.", "-test.benchtime=1x", "-test.timeout="+tooLong.String())
		c.Dir = m.folder
		out, err := c.CombinedOutput()
		if err != nil {
			r.failed = append(r.failed, fmt.Errorf("%s: %w\n%s", m.folder, err, out))
		}
		output[m.folder] = out
	}
	all := map[string]*results{}
	for _, m := range ms {
		out := output[m.folder]
		if out == nil {
			continue
		}
		res, err := m.parse(m.name, bytes.NewReader(out))
		switch {
		case err != nil:
			r.failed = append(r.failed, fmt.Errorf("%s: %w", m.name, err))
		case len(res.impls) == 0:
			r.failed = append(r.failed, fmt.Errorf("%s: no results of %s", m.name, m.pattern()))
		default:
			all[m.name] = res
		}
	}
	for _, l := range goals() {
		res := all[l.measurement]
		if res == nil {
			continue // not asked for, or complained of above
		}
		for _, impl := range []string{l.ours, l.rival} {
			if impl != "" && !slices.Contains(res.impls, impl) {
				r.failed = append(r.failed, fmt.Errorf("%s: no results of impl=%s", l.measurement, impl))
			}
		}
	}
	fmt.Fprintf(os.Stderr, "%d measurements ran\n", len(all))
}

// err returns what failed, nil if nothing did.
func (r *runner) err() error {
	if len(r.failed) == 0 {
		return nil
	}
	texts := make([]string, len(r.failed))
	for i, err := range r.failed {
		texts[i] = strings.TrimSpace(err.Error())
	}
	return errors.New(strings.Join(texts, "\n"))
}
