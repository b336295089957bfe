//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// programs makes a directory with links to this test binary, which is a different program under each name.
func programs(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range []string{"sluice", "job"} {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	return dir
}

// fileOf returns the path of a file with a text.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// started is a program that runs.
type started struct {
	*exec.Cmd
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	errs *bufio.Reader
}

// heedHangups has programs end by SIGHUP although these tests run under nohup, whose SIGHUP is ignored from one program to
// the next: a signal that this process takes is not.
var heedHangups = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) })

// start starts one of the programs in dir.
func start(t *testing.T, dir, name string, args ...string) *started {
	t.Helper()
	return startWith(t, nil, dir, name, args...)
}

// startWith is start with more variables in the environment.
func startWith(t *testing.T, variables []string, dir, name string, args ...string) *started {
	t.Helper()
	heedHangups()
	c := exec.Command(filepath.Join(dir, name), args...)
	c.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	c.Env = append(c.Env, "JOURNAL_STREAM=8:1") // log messages without times
	c.Env = append(c.Env, variables...)
	s := &started{Cmd: c, t: t}
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	errs, err := c.StderrPipe()
	require.NoError(t, err)
	s.in, s.out, s.errs = in, bufio.NewReader(out), bufio.NewReader(errs)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	return s
}

// patience is how long a test waits for a program, before it fails rather than hang.
const patience = 2 * time.Minute

// within calls wait, and kills the program if that takes too long, so that wait returns.
func (s *started) within(what string, wait func()) {
	s.t.Helper()
	limit := time.AfterFunc(patience, func() {
		s.t.Errorf("timed out waiting for %s of %v", what, s.Args)
		_ = s.Process.Kill()
	})
	defer limit.Stop()
	wait()
}

// line reads a line of the output.
func (s *started) line(from *bufio.Reader) (line string) {
	s.t.Helper()
	s.within("a line", func() {
		var err error
		line, err = from.ReadString('\n')
		require.NoError(s.t, err, "output so far: %q", line)
	})
	return strings.TrimSuffix(line, "\n")
}

func (s *started) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.Process.Signal(sig))
}

// ends waits for the end and returns the status, and what was left to read.
func (s *started) ends() (status int, out, errs string) {
	s.t.Helper()
	s.within("the end", func() {
		var b bytes.Buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = b.ReadFrom(s.out)
		}()
		e, err := io.ReadAll(s.errs)
		require.NoError(s.t, err)
		<-done
		err = s.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = nil
			status = exit.ExitCode()
		}
		require.NoError(s.t, err)
		out, errs = b.String(), string(e)
	})
	return status, out, errs
}

// TestThrottleInterrupted: throttle says how far it got when a signal comes, while it waits for input or for permits.
func TestThrottleInterrupted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   string
		sig    syscall.Signal
		status int
		errs   string
	}{
		{"-L 1MB/s -s 100", syscall.SIGINT, 130, "interrupted after 6 of 100 bytes in "},
		{"-L 1MB/s -s 100", syscall.SIGTERM, 143, "interrupted after 6 of 100 bytes in "},
		{"-L 1MB/s -s 100 -n -i 1h", syscall.SIGTERM, 143, "6\n"},
		{"-L 1MB/s -s 100 --progress json", syscall.SIGTERM, 143, `"done":false}`},
		{"-l -L 1/h", syscall.SIGINT, 130, "interrupted after 1 lines"},
		{"-l -L 1/h", syscall.SIGQUIT, 131, "interrupted after 1 lines"},
	} {
		t.Run(test.args+" "+test.sig.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, programs(t), "sluice", append([]string{"throttle"}, strings.Fields(test.args)...)...)
			text := "hello\n"
			if strings.HasPrefix(test.args, "-l") {
				text += "next\n"
			}
			_, err := io.WriteString(s.in, text)
			require.NoError(t, err)
			assert.Equal(t, "hello", s.line(s.out))
			s.signal(test.sig)
			status, out, errs := s.ends()
			assert.Equal(t, test.status, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, test.errs)
		})
	}
}

// TestRunLinesInOrder: lines come while a job runs if all before it have ended, and those of the next are kept.
func TestRunLinesInOrder(t *testing.T) {
	t.Parallel()
	came := filepath.Join(t.TempDir(), "came")
	s := start(t, programs(t), "sluice", "run", "-j3", "-k", "--line-buffer", "--colsep", " ", "job", "{1}", "{2}", "{3}", ":::",
		"echo=one child= echo=uno", "echo=two sleep=1h echo=never", "echo=three touch="+came+" sleep=1h")
	assert.Equal(t, "one", s.line(s.out))
	assert.Equal(t, "uno", s.line(s.out))
	assert.Equal(t, "two", s.line(s.out))
	appears(t, came)
	s.signal(syscall.SIGTERM)
	status, out, _ := s.ends()
	assert.Equal(t, 143, status)
	assert.Equal(t, "three\n", out)
}

func TestThrottleRateBySignals(t *testing.T) {
	t.Parallel()
	s := start(t, programs(t), "sluice", "throttle", "-v", "-l", "-L", "1/h")
	_, err := io.WriteString(s.in, "a\nb\n")
	require.NoError(t, err)
	assert.Equal(t, "a", s.line(s.out))
	s.signal(syscall.SIGUSR2)
	assert.Contains(t, s.line(s.errs), "the rate is")
	for range 40 { // to 2^40 an hour: b need not wait any longer
		s.signal(syscall.SIGUSR1)
		assert.Contains(t, s.line(s.errs), "the rate is")
	}
	assert.Equal(t, "b", s.line(s.out))
	require.NoError(t, s.in.Close())
	status, _, errs := s.ends()
	assert.Equal(t, 0, status)
	assert.NotContains(t, errs, "from", "the result of several rates is not compared with the last one")
}

func TestRunInterruptedOnce(t *testing.T) {
	t.Parallel()
	s := start(t, programs(t), "sluice", "run", "-j1", "--line-buffer", "job")
	_, err := io.WriteString(s.in, "echo=first\n")
	require.NoError(t, err)
	assert.Equal(t, "first", s.line(s.out))
	s.signal(syscall.SIGINT) // while it waits for more input
	status, out, errs := s.ends()
	assert.Equal(t, 130, status)
	assert.Empty(t, out)
	assert.Contains(t, errs, "no more jobs")
}

// appears waits until there is a file.
func appears(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(name)
		return err == nil
	}, time.Minute, time.Millisecond)
}

// gone reports whether no process of the group is left, but for such as have ended and are not reaped yet: who
// their new parent is, and how soon it looks, is the machine's affair.
func gone(t *testing.T, group int) bool {
	t.Helper()
	if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		return true
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended since
		}
		// pid (name) state parent group ...
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return false
		}
	}
	return len(stats) > 0
}

func TestRunEndsWholeGroups(t *testing.T) {
	t.Parallel()
	const usual = `job child=echo=child+sleep=1h sleep=1h & echo $$; wait`
	for _, test := range []struct {
		name, script string
		signals      []syscall.Signal
		status       int
	}{
		{"ctrl-C twice", usual, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, 130},
		{"SIGTERM", usual, []syscall.Signal{syscall.SIGTERM}, 143},
		{"SIGHUP", usual, []syscall.Signal{syscall.SIGHUP}, 129},
		{"SIGQUIT", usual, []syscall.Signal{syscall.SIGQUIT}, 131}, // without a stack of goroutines
		{"SIGTERM that they ignore", `exec 2>/dev/null; trap "" TERM; echo $$; job deaf sleep=1h`, []syscall.Signal{syscall.SIGTERM}, 143},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, programs(t), "sluice", "run", "-j2", "--line-buffer", "sh", "-c", test.script, ":::", "a", "b", "c")
			var groups []int
			for len(groups) < 2 {
				if n, err := strconv.Atoi(s.line(s.out)); err == nil {
					groups = append(groups, n)
				}
			}
			s.signal(test.signals[0])
			if len(test.signals) > 1 {
				assert.Contains(t, s.line(s.errs), "no more jobs; waiting for 2")
				s.signal(test.signals[1])
			}
			status, _, errs := s.ends()
			assert.Equal(t, test.status, status)
			assert.Empty(t, errs)
			for _, g := range groups {
				assert.True(t, gone(t, g), "group %d", g)
			}
		})
	}
}

func TestRunTimeoutEndsTheGroup(t *testing.T) {
	t.Parallel()
	s := start(t, programs(t), "sluice", "run", "--timeout", "0.3", "sh", "-c", `echo $$; job child=deaf+sleep=1h sleep=1h`, ":::", "a")
	status, out, _ := s.ends()
	assert.Equal(t, 1, status)
	group, err := strconv.Atoi(strings.TrimSpace(out))
	require.NoError(t, err)
	assert.True(t, gone(t, group))
}

// TestThrottleKeepsFlags: the descriptors that the caller shares with throttle stay as they are, blocking or not.
func TestThrottleKeepsFlags(t *testing.T) {
	t.Parallel()
	for _, nonblocking := range []bool{false, true} {
		var in, out [2]int
		require.NoError(t, syscall.Pipe(in[:]))
		require.NoError(t, syscall.Pipe(out[:]))
		var files [4]*os.File
		for i, fd := range []int{in[0], out[1], in[1], out[0]} {
			syscall.CloseOnExec(fd)
			require.NoError(t, syscall.SetNonblock(fd, nonblocking && i < 2))
			files[i] = os.NewFile(uintptr(fd), "pipe")
			t.Cleanup(func() { _ = files[i].Close() })
		}
		flags := func() (all [2]int) {
			for i, fd := range []int{in[0], out[1]} {
				var err error
				all[i], err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				require.NoError(t, err)
			}
			return all
		}
		before := flags()
		p, err := os.StartProcess(filepath.Join(programs(t), "sluice"), []string{"sluice", "throttle", "-q", "-L", "1MB"},
			&os.ProcAttr{Files: []*os.File{files[0], files[1], os.Stderr}})
		require.NoError(t, err)
		require.Equal(t, before, flags(), "the start changes nothing")
		_, err = files[2].WriteString("a")
		require.NoError(t, err)
		_, err = files[3].Read(make([]byte, 1))
		require.NoError(t, err)
		assert.Equal(t, before, flags(), "while it runs")
		require.NoError(t, p.Signal(syscall.SIGTERM))
		_, err = p.Wait()
		require.NoError(t, err)
		assert.Equal(t, before, flags())
	}
}
