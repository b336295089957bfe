// Compare sets sluice beside pv, xargs, GNU parallel, a ReverseProxy and nginx on this machine, and prints tables.
//
//	go run ./cmd/compare               some 5 minutes
//	go run ./cmd/compare -quick        a look, not a measurement
//	go run ./cmd/compare -part proxy   one part of it: commands or proxy
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/internal/docs"
)

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter runs")
	part := flag.String("part", "", "one part alone: "+strings.Join(partNames(), ", "))
	built := flag.String("sluice", "", "the program to measure; it is built if this does not say")
	as := flag.String("as", "", "be a part of a measurement: backend, alone or load; the program starts itself so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *as != "" {
		err = actAs(ctx, *as, flag.Args())
	} else {
		err = compare(ctx, *built, *quick, *part)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// say writes a part of the tables.
func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format, args...) }

// bench is where the programs are, and how long a measurement takes.
type bench struct {
	ctx         context.Context
	dir, sluice string
	nginx, self string
	rounds      int
	seconds     int
	gib         float64
	jobs        int

	requestRounds, requestsEach int
}

// parts are the measurements and the programs that they need.
var parts = []struct {
	name     string
	programs []string
	measure  func(bench) error
}{
	{"commands", []string{"pv", "xargs", "parallel"}, bench.commands},
	{"proxy", []string{"nginx"}, bench.proxies},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func compare(ctx context.Context, built string, quick bool, only string) (err error) {
	chosen := parts
	if only != "" {
		i := slices.Index(partNames(), only)
		if i < 0 {
			return fmt.Errorf("-part %q, want one of %s", only, strings.Join(partNames(), ", "))
		}
		chosen = parts[i : i+1]
	}
	b := bench{ctx: ctx, rounds: 7, seconds: 5, gib: 2, jobs: 2000, requestRounds: 10, requestsEach: 15_000}
	if quick {
		b = bench{ctx: ctx, rounds: 1, seconds: 2, gib: 0.5, jobs: 1000, requestRounds: 3, requestsEach: 5_000}
	}
	for _, part := range chosen {
		for _, name := range part.programs {
			path, err := find(name)
			if err != nil {
				return fmt.Errorf("%w: install it first", err)
			}
			if name == "nginx" {
				b.nginx = path
			}
		}
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "compare-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.sluice = built; built == "" {
		if b.sluice, err = build(ctx, b.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(b.dir, ".parallel"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, ".parallel", "will-cite"), nil, 0o600); err != nil {
		return err
	}
	say("%s", docs.Measured(time.Now()))
	for _, part := range chosen {
		if err := part.measure(b); err != nil {
			return err
		}
	}
	return nil
}

// build builds sluice, which is a module of its own beside this one, and returns the program's path.
func build(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sluice-go/sluice").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	program := filepath.Join(dir, "sluice")
	out, err := exec.CommandContext(ctx, "go", "-C", filepath.Join(strings.TrimSpace(string(root)), "cmd", "sluice"), "build", "-o", program, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

// find finds a program, also where Debian has those beyond most people's PATH.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		if sbin, err := exec.LookPath("/usr/sbin/" + name); err == nil {
			return sbin, nil
		}
	}
	return path, err
}

// command returns a command line in which sluice is the one that was built.
func (b bench) command(line string) *exec.Cmd {
	c := exec.CommandContext(b.ctx, "bash", "-c", strings.ReplaceAll(line, "sluice ", b.sluice+" "))
	c.Env = append(os.Environ(), "HOME="+b.dir)
	c.Dir = b.dir
	c.Stderr = os.Stderr
	return c
}

// row is a line of a table: the measurements of both sides, round by round.
type row struct {
	what         string
	ours, theirs []float64
	format       func(float64) string
}

// print writes medians, and the median of the ratios within the rounds.
func (r row) print(rival string) {
	ratios := make([]float64, len(r.ours))
	for i := range ratios {
		ratios[i] = r.ours[i] / r.theirs[i]
	}
	say("| %s | %s | %s | %s | %.2f |\n", r.what, rival, r.format(median(r.ours)), r.format(median(r.theirs)), median(ratios))
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return s[len(s)/2]
}

func header(title string) {
	say("\n%s\n\n| measure | compared with | sluice | rival | ratio |\n|---|---|--:|--:|--:|\n", title)
}
