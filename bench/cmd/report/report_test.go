package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Three rounds, the second in reverse: of a pair, both are of one round.
const tried = `goversion: go1.99
cores: 7
commit: abc1234
date: 2026-01-02
command: make bench
goos: linux
goarch: amd64
pkg: example
cpu: Intel(R) Machine
BenchmarkTryAcquireRelease/impl=sluice-2 	 1000	 20.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkTryAcquireRelease/impl=xsync-semaphore-2 	 1000	 40.0 ns/op	 0 B/op	 0 allocs/op
PASS
BenchmarkTryAcquireRelease/impl=xsync-semaphore-2 	 1000	 10.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkTryAcquireRelease/impl=sluice-2 	 1000	 10.0 ns/op	 0 B/op	 0 allocs/op
PASS
BenchmarkTryAcquireRelease/impl=sluice-2 	 1000	 30.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkTryAcquireRelease/impl=xsync-semaphore-2 	 1000	 50.0 ns/op	 0 B/op	 0 allocs/op
PASS
`

// The same on an AMD, a day later, where the goal is another.
const triedLater = `cores: 3
commit: fff9999
date: 2026-01-03 04:05
cpu: AMD Machine
BenchmarkTryAcquireRelease/impl=sluice-2 	 1000	 39.2 ns/op	 0 B/op	 0 allocs/op
BenchmarkTryAcquireRelease/impl=xsync-semaphore-2 	 1000	 40.0 ns/op	 0 B/op	 0 allocs/op
`

const idled = `BenchmarkIdle/impl=sluice-bucket-2 	 1	 257 heap-B/limiter	 0 timers
BenchmarkIdle/impl=sluice-concurrency-2 	 1	 256 heap-B/limiter	 0 timers
`

const grown = `BenchmarkQueueServe/impl=sluice/queue=10-2 	 1000	 200 ns/op	 0 B/op	 0 allocs/op
BenchmarkQueueServe/impl=sluice/queue=1-2 	 1000	 100 ns/op	 0 B/op	 0 allocs/op
BenchmarkQueueServe/impl=channel/queue=1-2 	 1000	 300 ns/op	 0 B/op	 0 allocs/op
`

// The differences are 20, 90 and 40; that of the medians would be 80.
const added = `BenchmarkGrantRelease/impl=sluice-2 	 1000	 120 ns/op	 0 B/op	 0 allocs/op
BenchmarkGrantRelease/impl=core-fixed-2 	 1000	 100 ns/op	 0 B/op	 0 allocs/op
BenchmarkGrantRelease/impl=core-fixed-2 	 1000	 20 ns/op	 0 B/op	 0 allocs/op
BenchmarkGrantRelease/impl=sluice-2 	 1000	 110 ns/op	 0 B/op	 0 allocs/op
BenchmarkGrantRelease/impl=sluice-2 	 1000	 70 ns/op	 0 B/op	 0 allocs/op
BenchmarkGrantRelease/impl=core-fixed-2 	 1000	 30 ns/op	 0 B/op	 0 allocs/op
`

// One that allocates does not meet a goal of none, and one that is faster has a sign too.
const executed = `BenchmarkExecute/impl=sluice-do-2 	 1000	 50 ns/op	 8 B/op	 1 allocs/op
BenchmarkExecute/impl=sluice-execute-2 	 1000	 35 ns/op	 0 B/op	 0 allocs/op
BenchmarkExecute/impl=bare-limiter-2 	 1000	 40 ns/op	 0 B/op	 0 allocs/op
`

const longest = `BenchmarkGrow/impl=sluice-2 	 1	 253757 longest-cpu-ns	 283401 longest-ns
`

func TestReport(t *testing.T) {
	t.Chdir(t.TempDir())
	files(t, map[string]string{
		"results/intel/try.txt": tried, "results/intel/idle.txt": idled, "results/intel/queue-serve.txt": grown,
		"results/intel/adaptive.txt": added, "results/intel/execute.txt": executed, "results/intel/key-grow.txt": longest,
		"results/amd/try.txt": triedLater,
		"README.md":           "before\n" + injectBegin + "old\n" + injectEnd + "after\n",
		"plots/ratios.svg":    "old",
	})
	if err := write(); err != nil {
		t.Fatal(err)
	}

	has(t, "RESULTS.md",
		"| Intel | Intel(R) Machine | 7 | linux | amd64 | go1.99 | abc1234 | 2026-01-02 |  |\n",
		"| AMD | AMD Machine | 3 |  |  |  | fff9999 | 2026-01-03 |  |\n",
		"| work | rival | goal Intel | ratio Intel | goal AMD | ratio AMD | met | allocs |\n",
		// Of 0.5, 1 and 0.6; the ratio of the medians would be 0.5.
		"| xsync-semaphore | 0.85 | **0.60** (0.55–0.80) | 0.95 | **0.98** (0.98–0.98) | Intel yes, AMD no | 0 |\n",
		"| idle concurrency limiter |  | 256 B | **256 B** | 256 B | not measured | yes |  |\n",
		"| idle token bucket |  | 256 B | **257 B** | 256 B | not measured | no |  |\n",
		"| idle fixed window |  | 256 B | not measured | 256 B | not measured |  |  |\n",
		"| 1000000 ns | **283401 ns** | 1000000 ns | not measured | yes |  |\n",
		"| core-fixed | +100 ns | **+40 ns** (+30–+65) | +100 ns | not measured | yes | 0 |\n",
		"| bare-limiter | +30 ns | **+10 ns** (+10–+10) | +30 ns | not measured | no | 1 |\n",
		"| bare-limiter | +30 ns | **-5 ns** (-5–-5) | +30 ns | not measured | yes | 0 |\n",
		"\nIntel: 5 of 7 goals are met.\nAMD: 0 of 1 goals are met.\n",
		"`BenchmarkTryAcquireRelease`, [Intel](results/intel/try.txt) (commit abc1234, 2026-01-02), [AMD](results/amd/try.txt) (commit fff9999, 2026-01-03)\n",
		"| Intel | sluice | 0 | 0 | 20 | 1.00 |\n| Intel | xsync-semaphore | 0 | 0 | 40 | 0.60 |\n| AMD | sluice | 0 | 0 | 39.2 | 1.00 |\n",
		"| processor | waiters | sluice | channel |\n| --- | --: | --: | --: |\n| Intel | 1 | 100 | 300 |\n| Intel | 10 | 200 |  |\n",
	)
	has(t, "README.md", "before\n"+injectBegin+"\n| column |", "measured last, AMD Machine. Every plot names its processor.\n\n![ratios](plots/ratios.svg)\n\n"+injectEnd+"after\n")
	for _, plot := range []string{"ratios", "bars-concurrency"} {
		has(t, filepath.Join("plots", plot+".svg"), "<svg", "AMD Machine", "</svg>")
	}
	// The AMD has no results for these.
	for _, plot := range []string{"bars-idle", "queue-serve"} {
		if _, err := os.Stat(filepath.Join("plots", plot+".svg")); !os.IsNotExist(err) {
			t.Errorf("plot %s: %v", plot, err)
		}
	}
}

// A processor that is neither has a column without goals.
func TestOtherProcessor(t *testing.T) {
	t.Chdir(t.TempDir())
	files(t, map[string]string{"results/other/try.txt": triedLater, "plots/ratios.svg": "old"})
	if err := write(); err != nil {
		t.Fatal(err)
	}
	has(t, "RESULTS.md",
		"| goal AMD | ratio AMD | ratio other | met | allocs |\n",
		"| xsync-semaphore | 0.85 | not measured | 0.95 | not measured | **0.98** (0.98–0.98) |  | 0 |\n",
	)
}

func TestWithoutResults(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := write(); err != nil {
		t.Fatal(err)
	}
	has(t, "RESULTS.md", "| 0.85 | not measured | 0.95 | not measured |  |  |\n")
}

// What is measured on one kind of processor leaves the results on others as they are, and
// output without results leaves all of them.
func TestSave(t *testing.T) {
	t.Chdir(t.TempDir())
	files(t, map[string]string{"results/intel/try.txt": tried, "results/amd/try.txt": "old"})
	r, m := &runner{}, measurements()[0]
	if err := r.save(m, []byte(triedLater)); err != nil {
		t.Fatal(err)
	}
	if r.cpu != "AMD Machine" {
		t.Errorf("cpu = %q", r.cpu)
	}
	if err := r.save(m, []byte(idled)); err == nil {
		t.Error("saved the output of another measurement")
	}
	for name, want := range map[string]string{"results/intel/try.txt": tried, "results/amd/try.txt": triedLater} {
		if got, err := os.ReadFile(name); string(got) != want {
			t.Errorf("%s = %s, %v", name, got, err)
		}
	}
}

// A measurement that fails keeps its old results.
func TestMeasure(t *testing.T) {
	t.Chdir(t.TempDir())
	files(t, map[string]string{
		"output":                    triedLater,
		"fails":                     "#!/bin/sh\necho broken\nexit 1\n",
		"works":                     "#!/bin/sh\ncat ../output\n",
		"limiter/go":                "",
		"channels/go":               "",
		"results/amd/channel-1.txt": "old",
	})
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fails", "works"} {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := &runner{built: map[string]string{"limiter": filepath.Join(wd, "works"), "channels": filepath.Join(wd, "fails")}}
	try := measurement{name: "try", folder: "limiter", bench: "TryAcquireRelease"}
	channel := measurement{name: "channel-1", folder: "channels", bench: "Channel", at: "pairs=1"}
	if err := r.measure(t.Context(), []measurement{try, channel}, effort{rounds: 2}, "effort: 2 rounds\n"); err != nil {
		t.Fatal(err)
	}
	if len(r.failed) != 1 || !strings.Contains(r.failed[0].Error(), "broken") {
		t.Errorf("failed = %v", r.failed)
	}
	for name, want := range map[string]string{
		"results/amd/try.txt":       "effort: 2 rounds\n" + triedLater + triedLater,
		"results/amd/channel-1.txt": "old",
	} {
		if got, err := os.ReadFile(name); string(got) != want {
			t.Errorf("%s = %s, %v", name, got, err)
		}
	}
}

func TestKindOf(t *testing.T) {
	for cpu, want := range map[string]kind{
		"Intel(R) Xeon(R) Processor": intel, "12th Gen Intel(R) Core(TM) i7-1260P": intel,
		"AMD EPYC": amd, "AMD EPYC 9654 96-Core Processor": amd,
		"Apple M2": other, "": other,
	} {
		if got := kindOf(cpu); got != want {
			t.Errorf("kindOf(%q) = %s, want %s", cpu, got, want)
		}
	}
}

// files writes files and the folders that they need.
func files(t *testing.T, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// has checks that a file contains each of the texts.
func has(t *testing.T, file string, texts ...string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(string(content), text) {
			t.Errorf("%s has no %q:\n%s", file, text, content)
		}
	}
}

func TestInjectLeavesOthersAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, text := range []string{"no marks\n", "one\n" + injectBegin, injectEnd + "the other\n"} {
		if err := os.WriteFile("file", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := inject("file", "table"); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile("file"); string(got) != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if err := inject("absent", "table"); err != nil {
		t.Error(err)
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0},
		{[]float64{3}, 0.5, 3},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{4, 1, 3, 2, 5}, 0.25, 2},
		{[]float64{4, 1, 3, 2}, 0.75, 3.25},
		{[]float64{1, 2}, 1, 2},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

// Each line of the table and each bar of a plot is of a measurement there is, and no two
// share a file.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, m := range measurements() {
		if names[m.name] {
			t.Errorf("two measurements are called %s", m.name)
		}
		names[m.name] = true
		for part := range strings.SplitSeq(m.pattern(), "/") {
			if _, err := regexp.Compile(part); err != nil || !strings.HasPrefix(part, "^") || !strings.HasSuffix(part, "$") {
				t.Errorf("%s: pattern %s: %v", m.name, m.pattern(), err)
			}
		}
	}
	for _, l := range goals() {
		if !names[l.measurement] {
			t.Errorf("%s: no measurement %s", l.work, l.measurement)
		}
	}
	for _, f := range families {
		for _, name := range f.measurements {
			if !names[name] {
				t.Errorf("%s: no measurement %s", f.title, name)
			}
		}
	}
}
