//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// redisServer starts a server of Redis on a free port, and returns its URL and its process.
func redisServer(t *testing.T) (string, *os.Process) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("NOT TESTED: redis-server is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGCONT)
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	require.Eventually(t, func() bool {
		n, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = n.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	return "redis://127.0.0.1:" + port + "/0", c.Process
}

// TestWaitOneAtATime: of several processes that share a permit, one runs its command at a time.
func TestWaitOneAtATime(t *testing.T) {
	url, _ := redisServer(t)
	dir := programs(t)
	log := filepath.Join(t.TempDir(), "log")
	var w sync.WaitGroup
	for i := range 6 {
		w.Go(func() {
			c := exec.Command(filepath.Join(dir, "sluice"), "wait", "--redis", url, "--key", "deploy", "concurrency 1", "--",
				"sh", "-c", fmt.Sprintf("echo begin %d >> %s; sleep 0.02; echo end %d >> %s; exit %d", i, log, i, log, i))
			out, err := c.CombinedOutput()
			if assert.NotNil(t, c.ProcessState, "%v", err) {
				assert.Equal(t, i, c.ProcessState.ExitCode(), "%s", out)
			}
		})
	}
	w.Wait()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	words := strings.Fields(string(text))
	require.Len(t, words, 24)
	for i := 0; i < len(words); i += 4 {
		assert.Equal(t, []string{"begin", "end"}, []string{words[i], words[i+2]})
		assert.Equal(t, words[i+1], words[i+3], "two ran at once: %s", text)
	}
}

func TestWaitRateAndTry(t *testing.T) {
	url, _ := redisServer(t)
	dir := programs(t)
	waits := func(args ...string) int {
		s := start(t, dir, "sluice", append([]string{"wait", "--redis", url}, args...)...)
		status, _, errs := s.ends()
		t.Log(errs)
		return status
	}
	assert.Equal(t, 0, waits("--key", "mail", "2/h burst 2"))
	assert.Equal(t, 0, waits("--key", "mail", "--try", "2/h burst 2"))
	assert.Equal(t, 75, waits("--key", "mail", "--try", "2/h burst 2"))
	assert.Equal(t, 1, waits("--key", "mail", "--try", "concurrency 1"), "another kind")
	assert.Equal(t, 128+9, waits("--key", "k", "concurrency 1", "--", "sh", "-c", "kill -9 $$"))
	assert.Equal(t, 0, waits("--key", "k", "--try", "concurrency 1"), "it was given back")
}

func TestWaitInterrupted(t *testing.T) {
	url, _ := redisServer(t)
	dir := programs(t)
	holder := start(t, dir, "sluice", "wait", "--redis", url, "--key", "k", "concurrency 1", "--", "sh", "-c", `trap 'echo asked; exit 7' TERM; echo run; while :; do sleep 0.02; done`)
	require.Equal(t, "run", holder.line(holder.out))
	for _, test := range []struct {
		sig    syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		s := start(t, dir, "sluice", "wait", "--redis", url, "--key", "k", "concurrency 1", "--", "echo", "never")
		busy := start(t, dir, "sluice", "wait", "--redis", url, "--key", "k", "--try", "concurrency 1")
		status, _, _ := busy.ends()
		require.Equal(t, 75, status)
		s.signal(test.sig)
		status, out, _ := s.ends()
		// A signal that comes before it is heard for ends the process as well, with no status of its own.
		assert.Contains(t, []int{test.status, -1}, status)
		assert.Empty(t, out)
	}
	holder.signal(syscall.SIGTERM) // goes to the command, whose status it is
	status, out, _ := holder.ends()
	assert.Equal(t, 7, status)
	assert.Equal(t, "asked\n", out)
}

// TestWaitLosesItsPermit: when Redis goes away in the middle the command is ended with all that it has started.
func TestWaitLosesItsPermit(t *testing.T) {
	url, redis := redisServer(t)
	dir := programs(t)
	s := start(t, dir, "sluice", "wait", "--redis", url, "--key", "k", "--ttl", "500ms", "concurrency 1", "--",
		"sh", "-c", `job child=sleep=1h sleep=1h & echo $$; wait`)
	line := s.line(s.out)
	group, err := strconv.Atoi(line)
	for err != nil { // the child's own line
		group, err = strconv.Atoi(s.line(s.out))
	}
	require.NoError(t, redis.Signal(syscall.SIGSTOP))
	status, _, errs := s.ends()
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "the permit was lost")
	assert.True(t, gone(t, group))
}

// TestWaitWhileRedisGoes: who waits does not wait for a server that is gone.
func TestWaitWhileRedisGoes(t *testing.T) {
	url, redis := redisServer(t)
	dir := programs(t)
	holder := start(t, dir, "sluice", "wait", "--redis", url, "--key", "k", "concurrency 1", "--", "sh", "-c", "echo run; sleep 1h")
	require.Equal(t, "run", holder.line(holder.out))
	s := start(t, dir, "sluice", "wait", "--redis", url, "--key", "k", "concurrency 1", "--", "echo", "never")
	require.NoError(t, redis.Kill())
	status, out, errs := s.ends()
	assert.Equal(t, 1, status)
	assert.Empty(t, out)
	assert.Contains(t, errs, "away")
	holder.signal(syscall.SIGTERM)
	_, _, _ = holder.ends()
}
