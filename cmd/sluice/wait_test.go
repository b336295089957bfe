//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// redisServer starts a server of Redis on a socket of its own, and returns its URL and its process.
func redisServer(t *testing.T) (string, *os.Process) {
	t.Helper()
	s := newRedisServer(t)
	return s.url, s.Process
}

// server is a server of Redis that forgets everything when it ends.
type server struct {
	*exec.Cmd

	t                     *testing.T
	url, socket, programs string
}

// newRedisServer starts a server on a socket of its own.
func newRedisServer(t *testing.T) *server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("NOT TESTED: redis-server is not installed")
	}
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // the name of t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	s := &server{t: t, url: "unix://" + socket, socket: socket, programs: programs(t)}
	s.Cmd = exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	s.start()
	t.Cleanup(s.end)
	return s
}

// start starts the server, also again.
func (s *server) start() {
	s.t.Helper()
	s.Cmd = exec.Command(s.Path, s.Args[1:]...)
	require.NoError(s.t, s.Cmd.Start())
	require.Eventually(s.t, func() bool {
		n, err := net.Dial("unix", s.socket)
		if err == nil {
			_ = n.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// end kills the server, also if it is stopped.
func (s *server) end() {
	_ = s.Process.Signal(syscall.SIGCONT)
	_ = s.Process.Kill()
	_ = s.Wait()
}

// waiter starts a sluice wait for a permit of the key k.
func (s *server) waiter(args ...string) *started {
	s.t.Helper()
	return start(s.t, s.programs, "sluice", append([]string{"wait", "--redis", s.url, "--key", "k"}, args...)...)
}

// holder starts a process that has the only permit, until its stdin ends.
func (s *server) holder() *started {
	s.t.Helper()
	h := s.waiter("--limit", "concurrency 1", "--", "sh", "-c", "echo run; read line")
	require.Equal(s.t, "run", h.line(h.out))
	return h
}

// inLine returns when so many processes are in line.
func (s *server) inLine(want int64) {
	s.t.Helper()
	c := clientOf(s.t, s.url)
	require.Eventually(s.t, func() bool {
		n, err := c.ZCard(s.t.Context(), "{k}:line").Result()
		return err == nil && n == want
	}, time.Minute, 2*time.Millisecond)
}

// TestWaitOneAtATime: of several processes that share a permit, one runs its command at a time.
func TestWaitOneAtATime(t *testing.T) {
	t.Parallel()
	s := newRedisServer(t)
	log := filepath.Join(t.TempDir(), "log")
	var all [6]*started
	for i := range all {
		all[i] = s.waiter("--limit", "concurrency 1", "--",
			"sh", "-c", fmt.Sprintf("echo start %d >> %s; sleep 0.02; echo end %d >> %s; exit %d", i, log, i, log, i))
	}
	for i, w := range all {
		status, _, errs := w.ends()
		assert.Equal(t, i, status, errs)
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	words := strings.Fields(string(text))
	require.Len(t, words, 24)
	for i := 0; i < len(words); i += 4 {
		assert.Equal(t, []string{"start", "end"}, []string{words[i], words[i+2]})
		assert.Equal(t, words[i+1], words[i+3], "two ran at the same time: %s", text)
	}
}

func TestWaitRateAndTry(t *testing.T) {
	t.Parallel()
	url, _ := redisServer(t)
	dir := programs(t)
	var said string
	waits := func(args ...string) (status int) {
		status, _, said = start(t, dir, "sluice", append([]string{"wait", "--redis", url}, args...)...).ends()
		t.Log(said)
		return status
	}
	assert.Equal(t, 0, waits("--key", "mail", "--limit", "2/h burst 2"))
	assert.Equal(t, 0, waits("--key", "mail", "--try", "--limit", "2/h burst 2"))
	assert.Equal(t, 75, waits("--key", "mail", "--try", "--limit", "2/h burst 2"))
	assert.Contains(t, said, "sluice wait: no permit of mail is free now; the next one is in ")
	assert.Equal(t, 75, waits("--key", "mail", "--max-wait", "10s", "--limit", "2/h burst 2"), "the next permit comes later")
	assert.Equal(t, 0, waits("--key", "several", "--try", "--limit", "2/h burst 2, fixed 1/1000d"))
	assert.Equal(t, 75, waits("--key", "several", "--try", "--limit", "2/h burst 2, fixed 1/1000d"))
	assert.Equal(t, 75, waits("--key", "none", "--try", "--limit", "blocked"))
	assert.Equal(t, 75, waits("--key", "none", "--limit", "blocked"))
	assert.Equal(t, 0, waits("--key", "fair", "--limit", "10/s fair-share"))
	assert.Equal(t, 1, waits("--key", "mail", "--try", "--limit", "concurrency 1"), "another kind")
	assert.Contains(t, said, "; use another --key for this limit")
	assert.Equal(t, 128+9, waits("--key", "k", "--limit", "concurrency 1", "--", "sh", "-c", "kill -9 $$"))
	assert.Equal(t, 0, waits("--key", "k", "--try", "--limit", "concurrency 1"), "it was returned")
}

func TestWaitInterrupted(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	holder := redis.waiter("--limit", "concurrency 1", "--", "sh", "-c", `trap 'echo asked; exit 7' TERM; echo run; while :; do sleep 0.02; done`)
	require.Equal(t, "run", holder.line(holder.out))
	for _, test := range []struct {
		sig    syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		s := redis.waiter("--limit", "concurrency 1", "--", "echo", "never")
		status, _, _ := redis.waiter("--try", "--limit", "concurrency 1").ends()
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
	t.Parallel()
	redis := newRedisServer(t)
	s := redis.waiter("--ttl", "500ms", "--limit", "concurrency 1", "--",
		"sh", "-c", `job child=sleep=1h sleep=1h & echo $$; wait`)
	group, err := strconv.Atoi(s.line(s.out))
	for err != nil { // the child's own line
		group, err = strconv.Atoi(s.line(s.out))
	}
	require.NoError(t, redis.Process.Signal(syscall.SIGSTOP))
	status, _, errs := s.ends()
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "the permit was lost")
	assert.True(t, gone(t, group))
}

// TestWaitInOrder: processes get the permit in the order in which they came, and one that is killed holds up no other.
func TestWaitInOrder(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	log := filepath.Join(t.TempDir(), "log")
	c := clientOf(t, redis.url)
	published := c.Subscribe(t.Context(), "{k}:line")
	defer func() { _ = published.Close() }()
	_, err := published.Receive(t.Context())
	require.NoError(t, err)
	holder := redis.holder()
	var waiting []*started
	for i := range 10 {
		waiting = append(waiting, redis.waiter("--limit", "concurrency 1", "--", "sh", "-c", fmt.Sprintf("echo %d >>%s", i, log)))
		redis.inLine(int64(i + 1))
	}
	for _, i := range []int{0, 4} {
		waiting[i].signal(syscall.SIGKILL)
	}
	require.NoError(t, holder.in.Close())
	for i, s := range waiting {
		if status, _, errs := s.ends(); i != 0 && i != 4 {
			assert.Equal(t, 0, status, "%s", errs)
		}
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, strings.Fields("1 2 3 5 6 7 8 9"), strings.Fields(string(text)))
	redis.inLine(0)
	require.NoError(t, c.Publish(t.Context(), "{k}:line", "end").Err())
	notified := make(map[string]int)
	for m := range published.Channel() {
		if m.Payload == "end" {
			break
		}
		notified[m.Payload]++
	}
	assert.NotEmpty(t, notified)
	for name, n := range notified {
		assert.Equal(t, 1, n, "%s is notified only when it has become the first", name)
	}
}

// TestWaitClockGoesBack: a process that comes later is behind another one, although the server's clock has been set back.
func TestWaitClockGoesBack(t *testing.T) {
	t.Parallel()
	server := newRedisServer(t)
	c := clientOf(t, server.url)
	const future = 9e15 // in microseconds
	for _, key := range []string{"{k}:line", "{k}:line:seen"} {
		require.NoError(t, c.ZAdd(t.Context(), key, redis.Z{Score: future, Member: "another"}).Err())
	}
	s := server.waiter("-v", "--limit", "concurrency 1")
	assert.Equal(t, "sluice wait: waiting for a permit of k, behind 1 in line", s.line(s.errs))
	require.NoError(t, c.ZRem(t.Context(), "{k}:line", "another").Err())
	status, _, errs := s.ends()
	assert.Equal(t, 0, status, errs)
}

// TestWaitLeavesLine: an interrupted process leaves the line immediately.
func TestWaitLeavesLine(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	redis.holder()
	for n := range int64(2) { // the first in line, and one behind it
		s := redis.waiter("--limit", "concurrency 1")
		redis.inLine(1 + n)
		if n == 1 {
			s.signal(syscall.SIGTERM)
			status, _, _ := s.ends()
			assert.Equal(t, 143, status)
			redis.inLine(1)
		}
	}
}

// TestWaitKilled: a command does not outlive the process that has its permit.
func TestWaitKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: only Linux can do that")
	}
	redis := newRedisServer(t)
	s := redis.waiter("--ttl", "500ms", "--limit", "concurrency 1", "--", "sh", "-c", "echo $$; exec sleep 1h")
	group, err := strconv.Atoi(s.line(s.out))
	require.NoError(t, err)
	s.signal(syscall.SIGKILL)
	require.Eventually(t, func() bool { return gone(t, group) }, time.Minute, 2*time.Millisecond)
	status, _, errs := redis.waiter("--limit", "concurrency 1").ends()
	assert.Equal(t, 0, status, "%s", errs)
}

// TestWaitWhileRedisGoes: a wait continues when the server is gone for a time, first in line or not.
func TestWaitWhileRedisGoes(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	holder := redis.holder()
	var waiting []*started
	for i := range 2 {
		waiting = append(waiting, redis.waiter("--limit", "concurrency 1", "--", "echo", "late"))
		redis.inLine(int64(i + 1))
	}
	redis.end()
	for _, w := range waiting {
		assert.Regexp(t, "^sluice wait: redis is unreachable: .*; waiting until it is back$", w.line(w.errs))
	}
	redis.start()
	require.NoError(t, holder.in.Close())
	for _, w := range waiting {
		status, out, errs := w.ends()
		assert.Equal(t, 0, status, "%s", errs)
		assert.Equal(t, "late\n", out)
		assert.Equal(t, "sluice wait: redis is reachable again\n", errs)
	}
}

// TestWaitAtMost: a wait ends with status 75 after --max-wait, and says meanwhile that it waits.
func TestWaitAtMost(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	redis.holder()
	first := redis.waiter("-v", "--limit", "concurrency 1")
	redis.inLine(1)
	file := fileOf(t, "redis", redis.url+"\n")
	second := start(t, redis.programs, "sluice", "wait", "--redis-file", file, "--key", "k", "-v", "--max-wait", "1200ms", "--limit", "concurrency 1", "--", "echo", "never")
	status, out, errs := second.ends()
	assert.Equal(t, 75, status)
	assert.Empty(t, out)
	assert.Equal(t, "sluice wait: waiting for a permit of k, behind 1 in line\nsluice wait: no permit of k came free within 1.2s\n", errs)
	redis.inLine(1)
	assert.Equal(t, "sluice wait: waiting for a permit of k", first.line(first.errs))
	status, _, errs = startWith(t, []string{"SLUICE_REDIS=" + redis.url}, redis.programs, "sluice", "wait", "--key", "k", "--try", "--limit", "concurrency 1").ends()
	assert.Equal(t, 75, status)
	assert.Equal(t, "sluice wait: no permit of k is free now\n", errs)
}

// TestWaitAtMostForASilentServer: --max-wait and signals end a wait although the server does not reply.
func TestWaitAtMostForASilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	waits := func(args ...string) *started {
		return start(t, programs(t), "sluice", append([]string{"wait", "--redis", "redis://" + l.Addr().String(), "--key", "k", "--limit", "1/h"}, args...)...)
	}
	patient := waits() // until the server counts as unreachable, which takes seconds
	_, err = l.Accept()
	require.NoError(t, err)
	status, _, errs := waits("--max-wait", "10ms").ends()
	assert.Equal(t, 75, status)
	assert.Equal(t, "sluice wait: no permit of k came free within 10ms\n", errs)
	patient.signal(syscall.SIGTERM)
	status, _, errs = patient.ends()
	assert.Equal(t, 143, status)
	assert.Equal(t, "sluice wait: interrupted while waiting\n", errs)
}

// TestWaitForAStoppedServer: signals and --max-wait end a wait although the server, which has replied before, would be waited for.
func TestWaitForAStoppedServer(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	redis.holder()
	redis.url += "?read_timeout=1h"
	var waiting []*started
	for i, maxWait := range [][]string{nil, nil, {"--max-wait", "1s"}} {
		waiting = append(waiting, redis.waiter(append(maxWait, "--limit", "concurrency 1")...))
		if maxWait == nil {
			redis.inLine(int64(i + 1))
		}
	}
	require.NoError(t, redis.Process.Signal(syscall.SIGSTOP))
	<-time.NewTimer(500 * time.Millisecond).C // so that they wait for a reply
	for i, want := range []int{130, 143, 75} {
		if want != 75 {
			waiting[i].signal(syscall.Signal(want - 128))
		}
		status, _, errs := waiting[i].ends()
		assert.Equal(t, want, status, errs)
	}
}

// TestWaitWithAnotherLimit: who uses another limit than the last one is told so.
func TestWaitWithAnotherLimit(t *testing.T) {
	t.Parallel()
	redis := newRedisServer(t)
	redis.holder()
	for _, want := range []string{"sluice wait: key k: using limit \"concurrency 2\", but \"concurrency 1\" was used last\n", ""} {
		status, _, errs := redis.waiter("--try", "--limit", "concurrency 2").ends()
		assert.Equal(t, 0, status)
		assert.Equal(t, want, errs)
	}
}
