package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// throughput measures copying without a limit.
func (b bench) throughput() error {
	header(fmt.Sprintf("Throughput without a limit, %d MiB, medians of %d rounds:", b.megabytes, b.rounds))
	file := filepath.Join(b.dir, "file")
	if err := b.command(fmt.Sprintf("head -c %dM /dev/zero > file", min(b.megabytes, 1024))).Run(); err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	for _, way := range []struct{ what, line string }{
		{"pipe to pipe", fmt.Sprintf("head -c %dM /dev/zero | %%s | cat > /dev/null", b.megabytes)},
		{"pipe to /dev/null", fmt.Sprintf("head -c %dM /dev/zero | %%s > /dev/null", b.megabytes)},
		{"file to pipe", "%s file | cat > /dev/null"},
		{"file to file", "%s file > copy"},
	} {
		size := float64(b.megabytes)
		if strings.HasPrefix(way.what, "file") {
			size = min(size, 1024)
		}
		r := row{what: way.what, format: func(v float64) string { return fmt.Sprintf("%.2f GiB/s", v/1024) }}
		for range b.rounds {
			for _, of := range []struct {
				program string
				to      *[]float64
			}{{"sluice throttle -q -L unlimited", &r.ours}, {"pv -q", &r.theirs}} {
				start := time.Now()
				if err := b.command(fmt.Sprintf(way.line, of.program)).Run(); err != nil {
					return err
				}
				*of.to = append(*of.to, size/time.Since(start).Seconds())
			}
		}
		r.print("pv")
	}
	return nil
}

// effort measures the processor time that a limited copy takes.
func (b bench) effort() error {
	header(fmt.Sprintf("Processor time per GiB at 100 MB/s, %d s each, from pipe to pipe and from file to pipe:", b.seconds))
	if err := b.command("head -c 1000M /dev/zero > file").Run(); err != nil {
		return err
	}
	for _, way := range []struct{ what, before, after string }{
		{"pipe to pipe", "head -c %d /dev/zero |", ""},
		{"file to pipe", "", "file"},
	} {
		r := row{what: way.what, format: func(v float64) string { return fmt.Sprintf("%.0f ms", v) }}
		bytes := b.seconds * 100_000_000
		before := way.before
		if before != "" {
			before = fmt.Sprintf(before, bytes)
		} else if err := b.command(fmt.Sprintf("truncate -s %d file", bytes)).Run(); err != nil {
			return err
		}
		for range max(b.rounds/2, 1) {
			for _, of := range []struct {
				program string
				to      *[]float64
			}{{"sluice throttle -q -L 100MB/s", &r.ours}, {"pv -q -L 100000000", &r.theirs}} {
				line := fmt.Sprintf("%s { TIMEFORMAT='%%U %%S'; time %s %s 2>&3; } 3>&2 2>times | cat > /dev/null", before, of.program, way.after)
				if err := b.command(line).Run(); err != nil {
					return err
				}
				seconds, err := b.times()
				if err != nil {
					return err
				}
				*of.to = append(*of.to, seconds*1000/(float64(bytes)/(1<<30)))
			}
		}
		r.print("pv")
	}
	return nil
}

// times reads what bash wrote of the time it took.
func (b bench) times() (sum float64, err error) {
	text, err := os.ReadFile(filepath.Join(b.dir, "times"))
	if err != nil {
		return 0, err
	}
	for f := range strings.FieldsSeq(string(text)) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// accuracy measures how a limited copy keeps to its rate.
func (b bench) accuracy() error {
	say("\nHow the rate is kept, %d s each; steady is what comes after the first second:\n\n", b.seconds)
	say("| rate | program | first second | steady | busiest 10 ms |\n|---|---|--:|--:|--:|\n")
	for _, rate := range []int{100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000} {
		for _, of := range []struct{ name, line string }{
			{"sluice", "sluice throttle -q -L %d"}, {"pv", "pv -q -L %d"},
		} {
			f, err := b.flow(exec.CommandContext(b.ctx, "bash", "-c", "exec "+strings.ReplaceAll(fmt.Sprintf(of.line, rate), "sluice ", b.sluice+" ")+" /dev/zero"), rate)
			if err != nil {
				return err
			}
			say("| %s | %s | %+.2f %% | %+.3f %% | %.2f × |\n", megabytes(rate), of.name, 100*f.first, 100*f.steady, f.busiest)
		}
	}
	return nil
}

func megabytes(rate int) string {
	return strconv.FormatFloat(float64(rate)/1e6, 'f', -1, 64) + " MB/s"
}

// flow is how a rate was kept.
type flow struct{ first, steady, busiest float64 }

const (
	bin     = 10 * time.Millisecond
	bufSize = 1 << 20
)

// flow reads what a program writes and counts it by the time of its arrival.
func (b bench) flow(c *exec.Cmd, rate int) (f flow, err error) {
	out, err := c.StdoutPipe()
	if err != nil {
		return f, err
	}
	if err := c.Start(); err != nil {
		return f, err
	}
	span := time.Duration(b.seconds) * time.Second
	bins := make([]float64, span/bin)
	buf := make([]byte, bufSize)
	var start time.Time
	for {
		n, err := out.Read(buf)
		if err != nil {
			return f, err
		}
		if start.IsZero() {
			start = time.Now()
		}
		at := time.Since(start)
		if at >= span {
			break
		}
		bins[at/bin] += float64(n)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	var first, steady float64
	for i, n := range bins {
		if i < int(time.Second/bin) {
			first += n
		} else {
			steady += n
		}
		f.busiest = max(f.busiest, n/(float64(rate)*bin.Seconds()))
	}
	f.first = first/float64(rate) - 1
	f.steady = steady/(float64(rate)*(span-time.Second).Seconds()) - 1
	return f, nil
}
