//go:build linux

package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestProxyNotifies: systemd learns when the proxy serves, when it reloads, and when it ends.
func TestProxyNotifies(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = socket.Close() }()
	next := func() string {
		t.Helper()
		require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
		text := make([]byte, 1000)
		n, err := socket.Read(text)
		require.NoError(t, err)
		return string(text[:n])
	}

	file := fileOf(t, "limits.yaml", "listen: 127.0.0.1:0\nto: http://127.0.0.1:1\n")
	s := startWith(t, []string{"NOTIFY_SOCKET=" + name}, programs(t), "sluice", "proxy", "--config", file)
	require.Equal(t, "READY=1", next())
	address := s.addressAfter("sluice proxy: listening on ")
	c, err := net.Dial("tcp", address)
	require.NoError(t, err, "it was ready")
	require.NoError(t, c.Close())

	reloads := func(change func()) {
		t.Helper()
		before := monotonic(t)
		change()
		usec, ok := strings.CutPrefix(next(), "RELOADING=1\nMONOTONIC_USEC=")
		require.True(t, ok)
		at, err := time.ParseDuration(strings.TrimSpace(usec) + "us")
		require.NoError(t, err)
		assert.GreaterOrEqual(t, at, before)
		assert.LessOrEqual(t, at, monotonic(t))
		require.Equal(t, "READY=1", next())
	}
	reloads(func() { s.signal(syscall.SIGHUP) })
	reloads(func() { replace(t, file, "listen: [") }) // it fails, and is over all the same

	s.signal(syscall.SIGTERM)
	require.Equal(t, "STOPPING=1", next())
	status, _, _ := s.ends()
	assert.Equal(t, 0, status)
}

// monotonic returns the clock that systemd compares with, in whole microseconds.
func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return time.Duration(now.Nano()).Truncate(time.Microsecond)
}
