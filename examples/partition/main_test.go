package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/examples/internal/program"
)

func run(t *testing.T, in string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = program.Run(t.Context(), args, program.Streams{In: strings.NewReader(in), Out: &o, Err: &e}, usage, define)
	return status, o.String(), e.String()
}

const line = `192.0.2.7 - ann [10/Oct/2026:13:55:36 +0200] "GET /a HTTP/1.1" 200 512 "-" "curl/8.5"` + "\n"

func TestReadLog(t *testing.T) {
	l, err := readLog(strings.NewReader(line +
		`2001:db8::1 - - [10/Oct/2026:11:55:37 +0000] "GET /\"a\" HTTP/1.1" 304 -` + "\n" +
		`192.0.2.7 - a b [10/Oct/2026:13:55:35 +0200] "\x16\x03" 400 0 "a \"b\" c" "-"` + "\r\n" +
		"nonsense\n\n" +
		`192.0.2.7 - - [10/Okt/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 512` + "\n"))
	require.NoError(t, err)
	require.Equal(t, []hit{{"192.0.2.7", 0}, {"2001:db8::1", time.Second}, {"192.0.2.7", -time.Second}}, l.hits)
	require.Equal(t, 3, l.odd)
}

// With a clock that does not slip, the limit holds exactly, in the log's time.
func TestPlay(t *testing.T) {
	var log bytes.Buffer
	require.NoError(t, generate(&log, 20_000, 1))
	l, err := readLog(&log)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := settings{most: 100_000, took: time.Hour}
		require.NoError(t, s.limit.UnmarshalText([]byte("fixed 10/h")))
		r, err := play(t.Context(), s, l)
		require.NoError(t, err)
		seen := make(map[string]int)
		for _, h := range l.hits {
			seen[h.client]++
		}
		require.Len(t, r.clients, len(seen))
		for _, c := range r.clients {
			require.Equal(t, min(10, seen[c.client]), c.allowed, c.client)
			require.Equal(t, seen[c.client], c.allowed+c.refused)
		}
	})
}

func TestOutput(t *testing.T) {
	status, log, _ := run(t, "", "-generate", "-lines", "5000")
	require.Zero(t, status)
	require.Equal(t, 5000, strings.Count(log, "\n"))
	status, out, errs := run(t, log+"odd\n", "-limit", "fixed 5/day", "-took", "1ns", "-top", "3")
	require.Zero(t, status, errs)
	require.Contains(t, out, "5000 requests of ")
	require.Contains(t, out, "1 lines are not in the combined log format")
	require.Regexp(t, `(?m)^ +203\.0\.113\.1 +\d+ +\d+$`, out)

	for want, args := range map[string][]string{
		`"fast": unknown kind`:    {"-limit", "fast"},
		"-top = 0, want at least": {"-top", "0"},
		"-took = 0s, want above":  {"-took", "0s"},
		"-lines = 0, want at":     {"-lines", "0"},
		"-clients = 0, want at":   {"-clients", "0"},
		"2 files, want one":       {"a", "b"},
		"-generate reads no a":    {"-generate", "a"},
	} {
		status, _, errs = run(t, "", args...)
		require.Equal(t, 2, status)
		require.Contains(t, errs, want)
	}
	status, _, errs = run(t, "x\ny\n")
	require.Equal(t, 1, status)
	require.Contains(t, errs, "no line in the combined log format among 2")
	status, _, _ = run(t, "", t.TempDir()+"/none")
	require.Equal(t, 1, status)
}
