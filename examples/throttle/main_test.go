package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests run the program itself: this binary, told so by the environment.
func TestMain(m *testing.M) { os.Exit(runMain(m)) }

func runMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "throttle")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "throttle.exe")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

var program string

// result is what a run of the program left behind.
type result struct {
	out, errs string
	code      int
}

func throttle(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return finish(t, cmd, cmd.Run)
}

func finish(t *testing.T, cmd *exec.Cmd, run func() error) result {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	cmd.Stderr = &errs
	var exit *exec.ExitError
	if err := run(); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func fileOf(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func TestItCopiesAFileAndSaysHowFast(t *testing.T) {
	text := strings.Repeat("0123456789", 30_000)
	in, out := fileOf(t, "in", text), filepath.Join(t.TempDir(), "out")
	begun := time.Now()
	got := throttle(t, "", "-rate", "1MB/s", "-o", out, in)
	require.GreaterOrEqual(t, time.Since(begun), 290*time.Millisecond)
	require.Equal(t, 0, got.code, got.errs)
	require.Equal(t, text, contentOf(t, out))
	require.Regexp(t, `^300000 bytes in 0\.\d{3} s: [\d.]+ [kM]B/s, [+-][\d.]+ % of the 1\.00 MB/s asked for\n$`, got.errs)
	require.Empty(t, got.out)
}

func TestItIsAFilter(t *testing.T) {
	got := throttle(t, "text", "-rate", "1MiB/s")
	require.Equal(t, result{"text", got.errs, 0}, got)
	require.Contains(t, got.errs, "too few to measure 1.00 MiB/s")
	require.Equal(t, result{"text", "", 0}, throttle(t, "text", "-q", "-rate", "1MiB/s", "-"))
}

func TestSeveralFilesGoOneAfterTheOther(t *testing.T) {
	a, b := fileOf(t, "a", "one"), fileOf(t, "b", "two")
	require.Equal(t, "one-two", throttle(t, "-", "-rate", "1MB/s", a, "-", b).out)
}

func TestIntoADirectoryTheyShareTheRate(t *testing.T) {
	text, dir := strings.Repeat("0123456789", 10_000), t.TempDir()
	begun := time.Now()
	got := throttle(t, "", "-rate", "1MB/s", "-o", dir, fileOf(t, "a", text), fileOf(t, "b", text))
	require.Equal(t, 0, got.code, got.errs)
	require.GreaterOrEqual(t, time.Since(begun), 190*time.Millisecond)
	require.Equal(t, text, contentOf(t, filepath.Join(dir, "a")))
	require.Equal(t, text, contentOf(t, filepath.Join(dir, "b")))
	require.Contains(t, got.errs, "a: 100000 bytes\nb: 100000 bytes\n200000 bytes in ")
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	in := fileOf(t, "in", "text")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no rate":          {[]string{in}, 2, "no -rate"},
		"a bad unit":       {[]string{"-rate", "8mb/s", in}, 2, `rate "8mb/s": "mb" is no unit`},
		"no number":        {[]string{"-rate", "fast", in}, 2, "does not begin with a number"},
		"a bad flag":       {[]string{"-speed", "1"}, 2, "-speed"},
		"no such file":     {[]string{"-rate", "1MB/s", "missing"}, 1, "missing"},
		"a directory":      {[]string{"-rate", "1MB/s", t.TempDir()}, 1, "is a directory"},
		"no such place":    {[]string{"-rate", "1MB/s", "-o", "missing/out", in}, 1, "missing"},
		"onto itself":      {[]string{"-rate", "1MB/s", "-o", in, in}, 1, "can't be written to as well"},
		"into its own dir": {[]string{"-rate", "1MB/s", "-o", filepath.Dir(in), in}, 1, "can't be written to as well"},
		"twice one name":   {[]string{"-rate", "1MB/s", "-o", t.TempDir(), in, fileOf(t, "in", "")}, 1, "would both be copied"},
		"help":             {[]string{"-h"}, 0, "throttle -rate RATE [-o OUT] [FILE...]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := throttle(t, "", c.args...)
			require.Equal(t, c.code, got.code)
			require.Contains(t, got.out+got.errs, c.says)
			require.Equal(t, "text", contentOf(t, in))
		})
	}
}

func TestCtrlCStopsAtOnceAndSaysHowFarItGot(t *testing.T) {
	for name, blocked := range map[string]bool{"waiting for permits": false, "waiting for input": true} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			require.NoError(t, err)
			defer read.Close()
			defer write.Close()
			cmd := exec.Command(program, "-rate", "1kB/s")
			cmd.Stdin = read
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			defer reader.Close()
			defer writer.Close()
			cmd.Stdout = writer
			text := "0123456789"
			if !blocked {
				text = strings.Repeat(text, 1000)
			}
			_, err = write.WriteString(text)
			require.NoError(t, err)
			got := finish(t, cmd, func() error {
				require.NoError(t, cmd.Start())
				_, err := reader.Read(make([]byte, 100)) // it has begun
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Signal(os.Interrupt))
				begun := time.Now()
				err = cmd.Wait()
				require.Less(t, time.Since(begun), 5*time.Second)
				return err
			})
			require.Equal(t, 130, got.code, got.errs)
			require.Regexp(t, `^interrupted after \d+ bytes\n\d+ bytes in `, got.errs)
		})
	}
}
