package docs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/docs"
)

// sentences are those with numbers of the benchmarks, by file. See docs.Figures for the placeholders.
var sentences = map[string][]string{
	"README.md": {
		"**Where it is slower**: channels ({ratio; Channel/pairs=64/impl=sluice; native} of a native channel's time, 64 senders), " +
			"pools with a queue ({ratio; Pool/workers=16/impl=sluice; native}, goroutines on a channel), " +
			"concurrency limiters ({ratio; Concurrency/work=try/impl=sluice; semaphore}; hand-overs up to " +
			"{ratio; HandOver/goroutines=16/permits=1/impl=sluice; semaphore}, x/sync/semaphore), and " +
			"the CPU time of `sluice throttle` for files ({command; throttle at 100 MB/s, file to pipe, CPU time per GiB; pv}, pv).",
	},
	"bench/README.md": {"## Results {machine}, {dates; }. Each ratio is"},
	"channel/doc.go": {
		"takes {ratio; Channel/pairs=4/impl=sluice-bounded; native} times as long as with a native channel, and " +
			"{ratio; Channel/pairs=4/impl=sluice-bounded; native-select} times as long as with a native channel and a select on ctx.Done().",
		"with a capacity of 1 an item of 4 KiB takes {ratio; LargeItems/capacity=1/impl=sluice-bounded; native} times as long.",
	},
	"docs/distributed.md": {
		"A script call took {time; Take/impl=sluice-rueidis/callers=64/keys=1000; server-ns/op} to " +
			"{time; Take/impl=redis_rate/callers=64/keys=1000; server-ns/op} of the server's single thread",
		"So one core can make about {persecond; Take/impl=sluice-goredis/callers=64/keys=1000; server-ns/op} decisions a second.",
		"With 64 callers on one key we measured {value; Take/impl=sluice-goredis/callers=64/keys=1; commands/op} calls and " +
			"{time; Take/impl=sluice-goredis/callers=64/keys=1; server-ns/op} of the server's time per decision, compared with " +
			"{time; Take/impl=redis_rate/callers=64/keys=1; server-ns/op} for one call each.",
		"A single busy caller sent 1 call for {per; Take/impl=sluice-ahead/callers=1/keys=1; commands/op} decisions; 64 callers sent 1 call for " +
			"{per; Take/impl=sluice-ahead/callers=64/keys=1; commands/op}.",
		"With 64 callers on 1,000 keys, redislimit took {ratio; Take/impl=sluice-goredis/callers=64/keys=1000; redis_rate} (go-redis) and " +
			"{ratio; Take/impl=sluice-rueidis/callers=64/keys=1000; redis_rate} (rueidis) of redis_rate's time per decision, and " +
			"{share; Take/impl=sluice-goredis/callers=64/keys=1000; Take/impl=redis_rate/callers=64/keys=1000; server-ns/op} and " +
			"{share; Take/impl=sluice-rueidis/callers=64/keys=1000; Take/impl=redis_rate/callers=64/keys=1000; server-ns/op} of the server's CPU time",
	},
	"docs/proxy.md": {"makes these tables; it needs nginx. They are from an {commands}; the machine was"},
	"docs/serve.md": {
		"Responses per second on {servers}, with client, server and Redis on the same machine,",
		"responded to each of 200 calls, the slowest after {slowest}.",
	},
	"redislimit/README.md": {"The machine ({machine}, {dates; Take}) had no other work"},
}

// TestNumbers checks that each table below a mark <!--table:NAME-->, and each sentence of the list above, has the
// numbers of the last run of the benchmarks. With -update it writes them.
func TestNumbers(t *testing.T) {
	figures, err := docs.ReadFigures(root)
	require.NoError(t, err)
	for name := range written(t) {
		text := read(t, name)
		filled, err := figures.Fill(text, sentences[name]...)
		if !assert.NoError(t, err, name) || filled == text {
			continue
		}
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte(filled), 0o644))
			continue
		}
		was := strings.Split(text, "\n")
		for i, line := range strings.Split(filled, "\n") {
			if i >= len(was) || line != was[i] {
				t.Errorf("%s:%d is not what was measured: %s", name, i+1, line)
				break
			}
		}
	}
}

// written returns the pages and the package comments that users read, without their blocks, by path.
func written(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, ending := range []string{".md", "doc.go"} {
		for _, name := range files(t, ending, "internal") {
			texts[name] = prose(t, name)
		}
	}
	for name := range sentences {
		require.Contains(t, texts, name)
	}
	return texts
}

var (
	measurement = regexp.MustCompile(`[\d.,]+ (?:ns|µs)\b|[\d.]+ times as (?:long|fast|much)|(?:[Tt]wice|[Hh]alf) as (?:fast|long)|a few percent`)
	marked      = regexp.MustCompile(`(?m)^<!--table:\w+-->\n\n(?:\|.*\n)*`)
)

// given are the statements with such numbers that no benchmark measures: what the code or the other side's does.
var given = []string{
	"buckets from 1 µs to 100 s",
	"each has 28 µs more",
	"took twice as long on an AMD EPYC",
	"four senders and receivers take twice as long",
}

// TestNoNumberByHand finds times and ratios that do not come from the benchmarks.
func TestNoNumberByHand(t *testing.T) {
	for name, text := range written(t) {
		if name == "CHANGELOG.md" || name == "docs/overload.md" { // its numbers are from examples/loadtest
			continue
		}
		text = marked.ReplaceAllString(text, "")
		for _, sentence := range append(sentences[name], given...) {
			expression, _ := docs.Pattern(sentence)
			text = expression.ReplaceAllString(text, "")
		}
		for _, found := range measurement.FindAllString(text, -1) {
			t.Errorf("%s: %q is not from bench/results.txt: add the sentence to the list of TestNumbers, or link to bench/README.md", name, found)
		}
	}
}

const run = `goos: linux
cpu: Intel(R) Xeon(R)
BenchmarkA/impl=sluice-2   10	 20 ns/op	 0 B/op
BenchmarkA/impl=other-2    10	 10 ns/op	 8 B/op
BenchmarkA/impl=sluice-2   10	 30 ns/op	 0 B/op
BenchmarkA/impl=other-2    10	 20 ns/op	 8 B/op
`

func TestResults(t *testing.T) {
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	results := docs.Results{Rows: map[string]docs.Row{"B/impl=sluice": {Date: "2026-01-01", Values: map[string]float64{"ns/op": 5}}}}
	require.NoError(t, results.Add(strings.NewReader(run), day))
	var b bytes.Buffer
	require.NoError(t, results.Write(&b))
	_, rows, _ := strings.Cut(b.String(), "\n")
	require.Equal(t, "A/impl=other 2026-01-02 8 B/op 15 ns/op\n"+
		"A/impl=sluice 2026-01-02 0 B/op 25 ns/op\n"+
		"A/impl=sluice vs other 2026-01-02 1.75 1.625 1.875\n"+
		"B/impl=sluice 2026-01-01 5 ns/op\n", rows)
	again, err := docs.ReadResults(&b)
	require.NoError(t, err)
	require.Equal(t, results, again)

	figures := docs.Figures{Results: results}
	text, err := figures.Fill("// It takes 7\n// times as long, on 1 May.\n", "takes {ratio; A/impl=sluice; other} times as long, on {dates; A}.")
	require.NoError(t, err)
	require.Equal(t, "// It takes 1.75\n// times as long, on 2 January 2026.\n", text)
	_, err = figures.Fill("Nothing.", "takes {ratio; A/impl=sluice; other} times")
	require.ErrorContains(t, err, "found 0 times")
	_, err = figures.Fill("takes 3 times", "takes {ratio; C; other} times")
	require.ErrorContains(t, err, "no \"ratio\" of C vs other")
	require.Error(t, results.Add(strings.NewReader("ok\n"), day))
	_, err = docs.ReadResults(strings.NewReader("A 1 ns/op\n"))
	require.Error(t, err)
}
