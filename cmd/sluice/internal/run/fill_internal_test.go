package run

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func numbers(n int) rows {
	return func(yield func(row, error) bool) {
		for i := range n {
			line := strconv.Itoa(100_000 + i)
			if !yield(row{whole: []string{line}, values: []string{line}}, nil) {
				return
			}
		}
	}
}

// TestFill: each command is as long as may be, none is longer, the last ones have equal shares, and no line is lost.
func TestFill(t *testing.T) {
	for _, words := range [][]string{{"echo"}, {"echo", "pre{}post"}, {"echo", "{/}", "{}"}} {
		for _, each := range []bool{false, true} {
			tm := syntax{}.parse(words)
			tm.each = each
			var jobs []int
			var lines []string
			for r, err := range tm.fill(numbers(100_000), 4) {
				require.NoError(t, err)
				jobs = append(jobs, len(r.whole))
				lines = append(lines, r.whole...)
				assert.Equal(t, r.whole, r.values)
				size := 0
				for _, w := range tm.expand(r, 1, 1) {
					size += len(w) + 1
				}
				assert.LessOrEqual(t, size, mostBytes)
				if len(jobs) == 1 {
					assert.Greater(t, size, mostBytes-100)
				}
			}
			require.Greater(t, len(jobs), 5)
			last := jobs[len(jobs)-4:]
			assert.Equal(t, last[0], last[1])
			assert.InDelta(t, last[0], last[3], 3)
			require.Len(t, lines, 100_000)
			assert.Equal(t, "199999", lines[len(lines)-1])
		}
	}
	for _, err := range (template{}).fill(numbers(0), 4) {
		t.Error("nothing was to be filled", err)
	}
	jobs := 0
	for _, err := range (syntax{}).parse([]string{"echo"}).fill(numbers(3), math.MaxInt) {
		require.NoError(t, err)
		jobs++
	}
	assert.Equal(t, 3, jobs, "however many jobs may run at once")
}

// TestUnquote: what quote writes is read as it was, and what only a shell understands is refused.
func TestUnquote(t *testing.T) {
	for _, words := range [][]string{
		{"a"}, {"a", ""}, {"", "b c"}, {"it's", `"`, `\`, "$x", "{}", "a*", "tab\there", "ü"}, {"'", "''", " "},
	} {
		got, err := unquote(quote(words))
		require.NoError(t, err, quote(words))
		assert.Equal(t, words, got)
	}
	got, err := unquote(`a\ b  "c d"e 'f'`)
	require.NoError(t, err)
	assert.Equal(t, []string{"a b", "c de", "f"}, got)
	for text, want := range map[string]error{
		"": errQuotes, " ": errQuotes, "'a": errQuotes, `a\`: errQuotes, "a | b": errQuotes, "echo $x": errQuotes, `"$x"`: errQuotes, "a;b": errQuotes,
		`printf 'a\n'`: errLines,
	} {
		_, err := unquote(text)
		require.ErrorIs(t, err, want, text)
	}
}

// FuzzUnquote: it is the inverse of quote.
func FuzzUnquote(f *testing.F) {
	f.Add("a", "b c")
	f.Add("'", `\`)
	f.Fuzz(func(t *testing.T, a, b string) {
		words := []string{a, b}
		if strings.Contains(a+" "+b, `\n`) {
			return
		}
		got, err := unquote(quote(words))
		require.NoError(t, err)
		assert.Equal(t, words, got)
	})
}

// TestReadCommands: the latest line of a job counts.
func TestReadCommands(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, []byte(joblogHeader+"\n"+
		"2\t:\t1\t1\t0\t0\t1\t0\tb\n1\t:\t1\t1\t0\t0\t0\t0\ta\n4\t:\t1\t1\t0\t0\t0\t9\td\n2\t:\t1\t1\t0\t0\t0\t0\tb x\n5\t:\tcut"), 0o600))
	all, err := readCommands(name)
	require.NoError(t, err)
	assert.Equal(t, []logged{{"a", false}, {"b x", false}, {}, {"d", true}}, all)
	for _, text := range []string{"no\n", "0\t:\t1\t1\t0\t0\t1\t0\tb\n", "99999999999\t:\t1\t1\t0\t0\t1\t0\tb\n"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := readCommands(name)
		require.ErrorContains(t, err, "log:1: no line of a joblog")
	}
}
