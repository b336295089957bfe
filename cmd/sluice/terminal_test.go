//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onTerminal runs the program with stderr on a terminal of some width, and returns what a person would see.
func onTerminal(t *testing.T, columns uint16, during func(terminal *os.File, in io.Writer), args ...string) string {
	t.Helper()
	screen, terminal, err := pty.Open()
	require.NoError(t, err)
	defer func() { _ = screen.Close() }()
	require.NoError(t, pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: columns}))
	c := exec.Command(filepath.Join(programs(t), "sluice"), args...)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	c.Stderr = terminal
	require.NoError(t, c.Start())
	if during != nil {
		during(screen, in)
	}
	require.NoError(t, in.Close())
	seen := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(screen) // ends with an error when the terminal is closed
		seen <- string(b)
	}()
	err = c.Wait()
	require.NoError(t, terminal.Close())
	text := <-seen
	require.NoError(t, err, text)
	return text
}

// TestBarOnATerminal: a terminal without a size counts as one of 80 columns; flags select what is shown.
func TestBarOnATerminal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, make([]byte, 30_000), 0o600))
	for _, columns := range []uint16{80, 0} {
		text := onTerminal(t, columns, nil, "throttle", "-L", "100kB", "-i", "20ms", "-N", "copy", "-o", os.DevNull, file)
		assert.Contains(t, text, "copy: ")
		assert.Regexp(t, `\[=+>?-*\]`, text)
		assert.Regexp(t, `[0-9]+%`, text)
		assert.Regexp(t, `ETA 0:00:0`, text)
		assert.Regexp(t, `kB/s\]`, text)
		assert.Contains(t, text, "30000 bytes in ")
		assert.NotRegexp(t, "\x1b\\[[0-9;]*m", text, "there are no colors to be switched off")
	}
	text := onTerminal(t, 80, nil, "throttle", "-a", "-L", "100kB", "-i", "20ms", "-o", os.DevNull, file)
	assert.Regexp(t, `\([0-9.]+ k?B/s\)`, text)
	assert.NotContains(t, text, "ETA")
	assert.NotContains(t, text, "%\r")

	text = onTerminal(t, 0, nil, "run", "--bar", "-j1", "job", ":::", "sleep=300ms", "sleep=300ms")
	assert.Regexp(t, `1/2 jobs \[=+>-+\] 50% [0-9.]+/s [0-9.]+m?s left`, text)
	text = onTerminal(t, 80, func(_ *os.File, in io.Writer) {
		_, err := io.WriteString(in, "sleep=300ms\necho=b\n")
		require.NoError(t, err)
	}, "run", "--bar", "-j1", "job")
	assert.Regexp(t, `[0-9] jobs`, text, "their number is unknown")

	assert.Empty(t, onTerminal(t, 80, nil, "throttle", "-q", "-L", "1GB", "-i", "20ms", os.DevNull))
}

func TestBarFitsWhatTheTerminalBecomes(t *testing.T) {
	t.Parallel()
	text := onTerminal(t, 120, func(screen *os.File, in io.Writer) {
		require.NoError(t, pty.Setsize(screen, &pty.Winsize{Rows: 24, Cols: 40}))
		_, err := in.Write(make([]byte, 20_000))
		require.NoError(t, err)
	}, "throttle", "-L", "100kB", "-s", "20000", "-i", "20ms", "-o", os.DevNull)
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if strings.Contains(line, "[=") && !strings.Contains(line, "bytes in") {
			assert.LessOrEqual(t, len(line), 80+40, line)
		}
	}
	assert.Contains(t, text, "20000 bytes in ")
}
