// Compare sets sluice beside pv, xargs, GNU parallel, a ReverseProxy and nginx on this machine, and prints tables.
//
//	go run ./compare           some 6 minutes
//	go run ./compare -quick    a look, not a measurement
//	go run ./compare -proxy    the proxies alone
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
)

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter runs")
	proxy := flag.Bool("proxy", false, "the proxies alone")
	built := flag.String("sluice", "", "the program to measure; it is built if this does not say")
	as := flag.String("as", "", "be a part of a measurement: backend, alone or load; the program starts itself so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // no caller to take it from
	var err error
	if *as != "" {
		err = part(ctx, *as, flag.Args())
	} else {
		err = compare(ctx, *built, *quick, *proxy)
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
	ctx         context.Context //nolint:containedctx // that of the whole program
	dir, sluice string
	nginx, self string
	rounds      int
	seconds     int
	megabytes   int
	jobs        int

	requestRounds, requestsEach int
}

func compare(ctx context.Context, built string, quick, proxy bool) (err error) {
	programs := []string{"pv", "xargs", "parallel"}
	if proxy {
		programs = nil
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w: install it first", err)
		}
	}
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		if nginx, err = exec.LookPath("/usr/sbin/nginx"); err != nil { // where Debian has it, beyond most people's PATH
			return fmt.Errorf("%w: install it first", err)
		}
	}
	b := bench{ctx: ctx, rounds: 7, seconds: 5, megabytes: 4096, jobs: 2000, requestRounds: 10, requestsEach: 15_000}
	if quick {
		b = bench{ctx: ctx, rounds: 1, seconds: 2, megabytes: 512, jobs: 200, requestRounds: 3, requestsEach: 5_000}
	}
	b.nginx = nginx
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "compare-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.sluice = built; built == "" {
		b.sluice = filepath.Join(b.dir, "sluice")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", b.sluice, "github.com/sluice-go/sluice/cmd/sluice").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(b.dir, ".parallel"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.dir, ".parallel", "will-cite"), nil, 0o600); err != nil {
		return err
	}
	parts := []func() error{b.throughput, b.effort, b.accuracy, b.starts, b.startRate, b.proxies}
	if proxy {
		parts = []func() error{b.proxies}
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// command returns a command line in which sluice is the one that was built.
func (b bench) command(line string) *exec.Cmd {
	c := exec.CommandContext(b.ctx, "bash", "-c", strings.ReplaceAll(line, "sluice ", b.sluice+" "))
	c.Env = append(os.Environ(), "HOME="+b.dir)
	c.Dir = b.dir
	c.Stderr = os.Stderr
	return c
}

// row is one line of a table: what was measured of ours and of theirs, round by round.
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
	say("\n%s\n\n| what | beside | sluice | the other | ratio |\n|---|---|--:|--:|--:|\n", title)
}
