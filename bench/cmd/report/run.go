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
	cpu      string            // the processor's name, once something is measured
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
	if m.repeats() {
		c.Env = append(c.Env, sidebyside.FullVariable+"=1")
	}
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", m.name, err, out)
	}
	return out, nil
}

// repeats reports whether one operation of the benchmark is a whole measurement, with as many repetitions as it
// needs.
func (m measurement) repeats() bool { return m.folder == memoryFolder || m.bench == "Grow" }

// effort says how long to measure.
type effort struct {
	rounds, curveRounds, memoryRounds int
	benchtime, curveBenchtime         time.Duration
}

func (e effort) of(m measurement) (rounds int, benchtime string) {
	switch {
	case m.repeats():
		return e.memoryRounds, "1x"
	case m.curve != nil:
		return e.curveRounds, e.curveBenchtime.String()
	default:
		return e.rounds, e.benchtime.String()
	}
}

// measure runs all measurements, a round of each before the next, so that a noisy minute
// spoils a round of some and not all of one. A measurement's results are saved when all its
// rounds are done; those of one that failed stay as they were.
func (r *runner) measure(ctx context.Context, ms []measurement, e effort, header string) error {
	output := map[string]*bytes.Buffer{}
	spoilt := map[string]bool{}
	most, total, done := 0, 0, 0
	for _, m := range ms {
		rounds, _ := e.of(m)
		most, total = max(most, rounds), total+rounds
		output[m.name] = bytes.NewBufferString(header)
	}
	show := progress()
	for round := range most {
		for _, m := range ms {
			rounds, benchtime := e.of(m)
			if round >= rounds || spoilt[m.name] {
				continue
			}
			done++
			show(fmt.Sprintf("%d of %d: %s, round %d of %d", done, total, m.name, round+1, rounds))
			out, err := r.run(ctx, m, benchtime, round)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			output[m.name].Write(out)
			if err == nil && round == rounds-1 {
				err = r.save(m, output[m.name].Bytes())
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "\n%v\n", err)
				r.failed = append(r.failed, err)
				spoilt[m.name] = true
			}
		}
	}
	fmt.Fprint(os.Stderr, "\n")
	return nil
}

// progress returns a function that shows a text with the time since the start: in a terminal
// in one line, again and again.
func progress() func(text string) {
	start := time.Now()
	before, after := "", "\n"
	if i, err := os.Stderr.Stat(); err == nil && i.Mode()&os.ModeCharDevice != 0 {
		before, after = "\r\x1b[K", ""
	}
	return func(text string) {
		fmt.Fprintf(os.Stderr, "%s%6s %s%s", before, time.Since(start).Round(time.Second), text, after)
	}
}

// save replaces a measurement's results on the kind of processor that its output names. Those
// on other kinds stay as they are.
func (r *runner) save(m measurement, output []byte) error {
	if _, err := r.parse(m, output); err != nil {
		return err
	}
	k := kindOf(r.cpu)
	if err := os.MkdirAll(k.folder(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(k.file(m.name), output, 0o644)
}

// parse reads what a measurement has printed, and the processor's name. It returns an error if
// there are no results.
func (r *runner) parse(m measurement, output []byte) (*results, error) {
	res, err := m.parse(m.name, bytes.NewReader(output))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if len(res.impls) == 0 {
		return nil, fmt.Errorf("%s: no results of %s", m.name, m.pattern())
	}
	r.cpu = res.config["cpu"]
	return res, nil
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
	all := measured{}
	for _, m := range ms {
		out := output[m.folder]
		if out == nil {
			continue
		}
		res, err := r.parse(m, out)
		if err != nil {
			r.failed = append(r.failed, err)
			continue
		}
		all[m.name] = res
	}
	r.checkLines(all)
	fmt.Fprintf(os.Stderr, "%d measurements ran on %s\n", len(all), r.cpu)
}

// checkLines checks that each line of the table finds its implementations.
func (r *runner) checkLines(all measured) {
	for _, l := range goals() {
		res := all[l.measurement]
		if res == nil {
			continue // not asked for, or already in r.failed
		}
		for _, impl := range []string{l.ours, l.rival} {
			if impl != "" && !slices.Contains(res.impls, impl) {
				r.failed = append(r.failed, fmt.Errorf("%s: no results of impl=%s", l.measurement, impl))
			}
		}
	}
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
