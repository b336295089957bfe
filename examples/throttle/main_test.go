package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// throttle runs the program and returns its status and what it wrote.
func throttle(t *testing.T, stdin string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	s := program.Streams{In: strings.NewReader(stdin), Out: &o, Err: &e}
	status = program.Run(t.Context(), args, s, usage, define)
	return status, o.String(), e.String()
}

func TestItIsAFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("0123456789", 30_000)
		start := time.Now()
		status, out, errs := throttle(t, text, "-rate", "1MB/s")
		require.Zero(t, status)
		require.Equal(t, text, out)
		require.Equal(t, 290*time.Millisecond, time.Since(start), "the first 10 ms pass immediately")
		require.Equal(t, "copying stdin to stdout at 1MB/s\nstdin: 300000 bytes in 290ms, 0.99 MiB/s\n", errs)
	})
}

func TestALineEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, _, errs := throttle(t, strings.Repeat("0123456789", 300_000), "-rate", "1MB/s")
		require.Zero(t, status)
		lines := strings.Split(errs, "\n")
		require.Len(t, lines, 5, errs)
		require.Regexp(t, `^1 s: [01]\.\d\d MiB$`, lines[1])
		require.Regexp(t, `^2 s: [12]\.\d\d MiB$`, lines[2])
	})
}

func TestFilesShareTheRate(t *testing.T) {
	text, from, to := strings.Repeat("0123456789", 10_000), t.TempDir(), t.TempDir()
	args := []string{"-rate", "1MB/s", "-o", to}
	for _, name := range []string{"a", "b"} {
		file := filepath.Join(from, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		args = append(args, file)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		status, _, errs := throttle(t, "", args...)
		require.Zero(t, status, errs)
		require.Equal(t, 190*time.Millisecond, time.Since(start), "the first 10 ms pass immediately")
		for _, name := range []string{"a", "b"} {
			got, err := os.ReadFile(filepath.Join(to, name))
			require.NoError(t, err)
			require.Equal(t, text, string(got))
			require.Contains(t, errs, name+": 100000 bytes in ")
		}
		status, _, errs = throttle(t, "", args...)
		require.Equal(t, 1, status)
		require.Contains(t, errs, "exists", "nothing is written over")
	})
}

func TestWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{}, 2, "-rate"},
		{[]string{"-rate", "fast"}, 2, "fast"},
		{[]string{"-rate", "1MB/s", "-o", "."}, 2, "want -o and files, or neither"},
		{[]string{"-rate", "1MB/s", "-o", ".", "missing"}, 1, "missing"},
		{[]string{"-h"}, 0, "throttle -rate RATE [-o DIR] [FILE...]"},
	} {
		status, out, errs := throttle(t, "", c.args...)
		require.Equal(t, c.status, status)
		require.Contains(t, out+errs, c.says)
	}
}
