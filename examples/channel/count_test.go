package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"

	"github.com/stretchr/testify/require"
)

// TestCountsEachLineOnce cuts a file into parts at every offset.
func TestCountsEachLineOnce(t *testing.T) {
	text := "INFO a\n\nERROR bb\n" + strings.Repeat("x", 100) + "\nWARN\nno line feed"
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for producers := 1; producers <= len(text)+3; producers++ {
		s := settings{file: file, budget: 101, producers: producers, consumers: 2}
		limiter := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: s.budget, QueueLimit: math.MaxInt}))
		got, err := count(t.Context(), s, limiter)
		require.NoError(t, err)
		require.Equal(t, 6, got.lines, "%d producers", producers)
		require.Equal(t, len(text), got.bytes)
		require.Equal(t, map[string]int{"INFO": 1, "ERROR": 1, "WARN": 1, "other": 3}, got.byLevel)
		require.LessOrEqual(t, got.peak, s.budget)
		require.Equal(t, s.budget, limiter.Available())
	}
}

func TestErrorsThatHelp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte("a line\n"), 0o600))
	for want, args := range map[string][]string{
		"-budget is 0":         {"-budget", "0"},
		"-consumers 0":         {"-consumers", "0"},
		"-pause is -1s":        {"-pause", "-1s"},
		`"x"; a file is named`: {"x"},
		"no such file":         {"-file", file + "!"},
		"is a directory":       {"-file", filepath.Dir(file)},
		"raise -budget":        {"-file", file, "-budget", "6"},
	} {
		var errs strings.Builder
		status := program.Run(t.Context(), args, program.Streams{Out: io.Discard, Err: &errs}, usage, define)
		require.Positive(t, status)
		require.Contains(t, errs.String(), want)
		require.Equal(t, 1, strings.Count(errs.String(), "\n"), "it is told once")
	}
	err := run(t.Context(), settings{file: file, budget: 6, producers: 1, consumers: 1}, io.Discard)
	require.ErrorIs(t, err, core.ErrPermitsExceedLimit)
}
