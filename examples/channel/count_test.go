package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"

	"github.com/stretchr/testify/require"
)

// TestCountsEachLineOnce counts a file as often as it is named.
func TestCountsEachLineOnce(t *testing.T) {
	text := "INFO a\n\nERROR bb\n" + strings.Repeat("x", 100) + "\nWARN\nno line feed"
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	s := settings{files: []string{file, file}, budget: 101, consumers: 2}
	limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: s.budget}))
	got, err := count(t.Context(), s, limiter)
	require.NoError(t, err)
	require.Equal(t, 12, got.lines)
	require.Equal(t, 2*len(text), got.bytes)
	require.Equal(t, map[string]int{"INFO": 2, "ERROR": 2, "WARN": 2, "other": 6}, got.byLevel)
	require.LessOrEqual(t, got.peak, s.budget)
	require.Equal(t, s.budget, limiter.Available())
}

func TestErrorsThatHelp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte("a line\n"), 0o600))
	for want, args := range map[string][]string{
		"-budget is 0":    {"-budget", "0"},
		"-consumers is 0": {"-consumers", "0"},
		"-pause is -1s":   {"-pause", "-1s"},
		"no such file":    {file + "!"},
		"is a directory":  {filepath.Dir(file)},
		"raise -budget":   {"-budget", "6", file},
	} {
		var errs strings.Builder
		status := program.Run(t.Context(), args, program.Streams{Out: io.Discard, Err: &errs}, usage, define)
		require.Positive(t, status)
		require.Contains(t, errs.String(), want)
		require.Equal(t, 1, strings.Count(errs.String(), "\n"), "it is told once")
	}
	err := run(t.Context(), settings{files: []string{file}, budget: 6, consumers: 1}, io.Discard)
	require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
}
