package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strconv"
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

func unzipped(t *testing.T, compressed []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}

func TestItCompresses(t *testing.T) {
	var random strings.Builder
	for i := range 20_000 {
		random.WriteString(strconv.Itoa(i * i))
	}
	file, to := filepath.Join(t.TempDir(), "a"), t.TempDir()
	require.NoError(t, os.WriteFile(file, []byte(random.String()), 0o600))
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		status, out, _ := throttle(t, random.String(), "-rate", "100kB/s", "-z")
		require.Zero(t, status)
		require.Equal(t, random.String(), unzipped(t, []byte(out)))
		seconds := float64(len(out)-1460) / 100_000 // a packet passes immediately
		require.InDelta(t, seconds, time.Since(start).Seconds(), 0.001)

		status, _, errs := throttle(t, "", "-rate", "100kB/s", "-z", "-o", to, file)
		require.Zero(t, status, errs)
		copied, err := os.ReadFile(filepath.Join(to, "a.gz"))
		require.NoError(t, err)
		require.Equal(t, out, string(copied))
	})
}

// TestACompressionEnds has a copy that fails.
func TestACompressionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := program.Streams{In: endless{}, Out: io.Discard, Err: io.Discard}
		require.Equal(t, 1, program.Run(ctx, []string{"-rate", "100/s", "-z"}, s, usage, define))
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return rand.Read(p) }

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
		{[]string{"-h"}, 0, "throttle -rate RATE [-z] [-o DIR] [FILE...]"},
	} {
		status, out, errs := throttle(t, "", c.args...)
		require.Equal(t, c.status, status)
		require.Contains(t, out+errs, c.says)
	}
}
