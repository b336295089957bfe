package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// work is what sluice and a rival do with one command each. line has the command's place, %s.
type work struct {
	what, rival        string
	line, ours, theirs string
	amount             float64 // GiB, or jobs
	measure            func(amount float64, t took) float64
	format             string
}

// took is the time that a command takes.
type took struct{ real, user, system float64 } // seconds

// commands measures sluice throttle and sluice run.
func (b bench) commands() error {
	header("Medians of the rounds:")
	const gib = 1 << 30
	size, limited := b.gib, float64(b.seconds)*100_000_000/gib
	bytes := func(gibs float64) int { return int(gibs * gib) }
	if err := b.command(fmt.Sprintf("head -c %d /dev/zero > large; head -c %d /dev/zero > small", bytes(size), bytes(limited))).Run(); err != nil {
		return err
	}
	defer func() { _ = os.Remove(filepath.Join(b.dir, "large")) }()
	perSecond := func(amount float64, t took) float64 { return amount / t.real }
	cpu := func(amount float64, t took) float64 { return 1000 * (t.user + t.system) / amount }
	for _, w := range []work{
		{
			what: "throttle without a limit, pipe to pipe", rival: "pv", amount: size, measure: perSecond, format: "%.2f GiB/s",
			line: fmt.Sprintf("head -c %d /dev/zero | %%s | cat > /dev/null", bytes(size)), ours: "sluice throttle -q -L unlimited", theirs: "pv -q",
		},
		{
			what: "throttle without a limit, file to pipe", rival: "pv", amount: size, measure: perSecond, format: "%.2f GiB/s",
			line: "%s | cat > /dev/null", ours: "sluice throttle -q -L unlimited large", theirs: "pv -q large",
		},
		{
			what: "throttle at 100 MB/s, pipe to pipe, CPU time per GiB", rival: "pv", amount: limited, measure: cpu, format: "%.0f ms",
			line: fmt.Sprintf("head -c %d /dev/zero | %%s | cat > /dev/null", bytes(limited)), ours: "sluice throttle -q -L 100MB/s", theirs: "pv -q -L 100000000",
		},
		{
			what: "throttle at 100 MB/s, file to pipe, CPU time per GiB", rival: "pv", amount: limited, measure: cpu, format: "%.0f ms",
			line: "%s | cat > /dev/null", ours: "sluice throttle -q -L 100MB/s small", theirs: "pv -q -L 100000000 small",
		},
		{
			what: "run, jobs of /bin/true, 2 at a time", rival: "xargs", amount: float64(b.jobs), measure: perSecond, format: "%.0f/s",
			line: fmt.Sprintf("seq %d | %%s", b.jobs), ours: "sluice run -j2 /bin/true", theirs: "xargs -P2 -n1 /bin/true",
		},
		{
			what: "run, the same", rival: "GNU parallel", amount: float64(b.jobs / 5), measure: perSecond, format: "%.0f/s",
			line: fmt.Sprintf("seq %d | %%s", b.jobs/5), ours: "sluice run -j2 /bin/true", theirs: "parallel -j2 /bin/true",
		},
	} {
		if err := b.compare(w); err != nil {
			return err
		}
	}
	return nil
}

func (b bench) compare(w work) error {
	r := row{what: w.what, format: func(v float64) string { return fmt.Sprintf(w.format, v) }}
	for range b.rounds {
		for _, of := range []struct {
			command string
			to      *[]float64
		}{{w.ours, &r.ours}, {w.theirs, &r.theirs}} {
			t, err := b.time(w.line, of.command)
			if err != nil {
				return fmt.Errorf("%s: %w", of.command, err)
			}
			*of.to = append(*of.to, w.measure(w.amount, t))
		}
	}
	r.print(w.rival)
	return nil
}

// time runs a line and returns the time of the command in it, which bash writes to a file.
func (b bench) time(line, command string) (t took, err error) {
	command = fmt.Sprintf("{ TIMEFORMAT='%%R %%U %%S'; time %s 2>&3; } 3>&2 2>times", command)
	if err := b.command(fmt.Sprintf(line, command)).Run(); err != nil {
		return t, err
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "times"))
	if err != nil {
		return t, err
	}
	_, err = fmt.Sscan(string(text), &t.real, &t.user, &t.system)
	return t, err
}
