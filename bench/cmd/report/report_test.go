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
cpu: A Machine
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

func TestReport(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, folder := range []string{"results", "plots"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"results/try.txt": tried, "results/idle.txt": idled, "results/queue-serve.txt": grown,
		"results/adaptive.txt": added, "results/execute.txt": executed,
		"README.md": "before\n" + injectBegin + "old\n" + injectEnd + "after\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := write("results"); err != nil {
		t.Fatal(err)
	}

	has(t, "RESULTS.md",
		"- machine: A Machine\n- cores: 7\n",
		"- commit: abc1234\n- date: 2026-01-02\n- command: `make bench`\n",
		// Of 0.5, 1 and 0.6; the ratio of the medians would be 0.5.
		"| xsync-semaphore | 20 ns | 40 ns | **0.60** (0.55–0.80) | 0.80, 0 allocs | yes | 0 | 0 |\n",
		"| idle concurrency limiter | | 256 B | | | 256 B | yes | | |\n",
		"| idle token bucket | | 257 B | | | 256 B | no | | |\n",
		"| idle fixed window |  | | | not measured | 256 B | | | |\n",
		"| core-fixed | 110 ns | 30 ns | **+40 ns** (+30–+65) | +100 ns, 0 allocs | yes | 0 | 0 |\n",
		"| bare-limiter | 50 ns | 40 ns | **+10 ns** (+10–+10) | +30 ns, 0 allocs | no | 8 | 1 |\n",
		"| bare-limiter | 35 ns | 40 ns | **-5 ns** (-5–-5) | +30 ns, 0 allocs | yes | 0 | 0 |\n",
		"\n4 of 6 goals are met.\n",
		"| sluice | 0 | 0 | 20 | 1.00 |\n| xsync-semaphore | 0 | 0 | 40 | 0.60 |\n",
		"| waiters | sluice | channel |\n|--:|--:|--:|\n| 1 | 100 | 300 |\n| 10 | 200 |  |\n",
	)
	has(t, "README.md", "before\n"+injectBegin+"\n- machine: A Machine\n", "![ratios](plots/ratios.svg)\n\n"+injectEnd+"after\n")
	for _, plot := range []string{"ratios", "bars-concurrency", "bars-idle", "queue-serve"} {
		has(t, filepath.Join("plots", plot+".svg"), "<svg", "</svg>")
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
