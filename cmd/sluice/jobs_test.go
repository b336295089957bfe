//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// state returns the state of a process as ps shows it: S, T, Z and so on; "" if it is gone.
func state(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[0]
}

// becomes waits until a process has a state.
func becomes(t *testing.T, pid int, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(want, state(pid)) && state(pid) != "" }, time.Minute, time.Millisecond, "want %s", want)
}

// TestRunStopsWithItsJobs: Ctrl-Z stops the jobs too, which are in groups of their own, and fg continues them.
func TestRunStopsWithItsJobs(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("NOT TESTED: no /proc")
	}
	s := start(t, programs(t), "sluice", "run", "--line-buffer", "sh", "-c", `echo $$; read line <"$1"; echo "$line"`, "sh", "{}", ":::", fifo(t))
	job, err := strconv.Atoi(s.line(s.out))
	require.NoError(t, err)
	s.signal(syscall.SIGTSTP)
	becomes(t, job, "T")
	becomes(t, s.Process.Pid, "T")
	s.signal(syscall.SIGCONT)
	becomes(t, s.Process.Pid, "SR")
	becomes(t, job, "SRD")
	s.signal(syscall.SIGTERM)
	status, _, _ := s.ends()
	assert.Equal(t, 143, status)
	assert.True(t, gone(t, job))
}

// fifo returns the name of a pipe without a writer.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	return name
}

// TestRunTellsOfTheTerminal: a person who has given no input is told what the program waits for.
func TestRunTellsOfTheTerminal(t *testing.T) {
	t.Parallel()
	keyboard, terminal, err := pty.Open()
	require.NoError(t, err)
	defer func() { _ = keyboard.Close() }()
	c := exec.Command(filepath.Join(programs(t), "sluice"), "run", "-j1", "echo")
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = terminal, &out, &errs
	require.NoError(t, c.Start())
	_, err = keyboard.WriteString("line\n\x04")
	require.NoError(t, err)
	require.NoError(t, c.Wait())
	require.NoError(t, terminal.Close())
	assert.Equal(t, "line\n", out.String())
	assert.Equal(t, "sluice run: reading lines from the terminal; Ctrl-D ends them\n", errs.String())
}

// TestRunLinesToSlowReader: a job's lines stay whole if its program has ended before its output could be written. The time that
// this takes does not count for its timeout.
func TestRunLinesToSlowReader(t *testing.T) {
	t.Parallel()
	printed := filepath.Join(t.TempDir(), "printed")
	tag := strings.Repeat("t", 200) // so that what the first read returns is more than the output has room for
	s := start(t, programs(t), "sluice", "run", "--line-buffer", "--timeout", "10", "--tag", "job", "fill=90000", "print=a", "touch="+printed, "{1}", ":::", "exit=0", ":::", tag)
	tag = "exit=0 " + tag
	appears(t, printed)
	<-time.NewTimer(10200 * time.Millisecond).C // longer than the timeout, and than sluice waits for a child that prints nothing
	status, out, errs := s.ends()
	assert.Equal(t, 0, status, errs)
	assert.Equal(t, strings.Repeat(tag+"\t"+strings.Repeat("x", 99)+"\n", 900)+tag+"\ta\n", out)
}

// TestRunEndsWithoutReader: a blocked output holds up no signal, and once the jobs are gone, another signal ends the program.
func TestRunEndsWithoutReader(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pid")
	s := start(t, programs(t), "sluice", "run", "--line-buffer", "sh", "-c", `echo $$ >"$1.new"; mv "$1.new" "$1"; exec job fill=1000000`, "sh", ":::", name)
	var pid int
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(name)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	}, time.Minute, time.Millisecond)
	<-time.NewTimer(300 * time.Millisecond).C // so that the output is full, as a rule
	require.Eventually(t, func() bool {
		_ = s.Process.Signal(syscall.SIGINT)
		return state(s.Process.Pid) == "Z"
	}, time.Minute, 10*time.Millisecond)
	assert.True(t, gone(t, pid))
	status, _, _ := s.ends()
	assert.Equal(t, 130, status)
}

// TestRunWithoutHangup: nohup makes a program ignore SIGHUP, and run keeps ignoring it.
func TestRunWithoutHangup(t *testing.T) {
	t.Parallel()
	dir, named := programs(t), fifo(t)
	require.NoError(t, os.Symlink("/bin/sh", filepath.Join(dir, "sh")))
	s := start(t, dir, "sh", "-c", `trap "" HUP; exec sluice "$@"`, "sh",
		"run", "--line-buffer", "sh", "-c", `echo started; read line <"$1"; echo "$line"`, "sh", ":::", named)
	assert.Equal(t, "started", s.line(s.out))
	s.signal(syscall.SIGHUP)
	require.NoError(t, os.WriteFile(named, []byte("continued\n"), 0o600))
	status, out, errs := s.ends()
	assert.Equal(t, 0, status, errs)
	assert.Equal(t, "continued\n", out)
}
