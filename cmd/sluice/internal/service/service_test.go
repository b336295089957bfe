//go:build unix

package service_test

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

// TestReloadHoldsUpNoSignal: SIGTERM ends a service also while it reads its files, and reloads that are asked for meanwhile are one.
// A reload that ends after SIGTERM does not tell systemd that the service is ready.
func TestReloadHoldsUpNoSignal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = systemd.Close() }()
	t.Setenv("NOTIFY_SOCKET", name)
	came, hold, ready := make(chan bool, 10), make(chan struct{}, 10), make(chan struct{})
	s := service.Service{
		Say: t.Logf, Files: []string{filepath.Join(t.TempDir(), "file")},
		Start: func(context.Context, chan<- error) (func(), error) {
			close(ready)
			return func() {}, nil
		},
		Reload: func(asked bool) {
			came <- asked
			<-hold
		},
		Drain: func(<-chan os.Signal) error { return nil },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	<-ready
	kill := func(s syscall.Signal) { require.NoError(t, syscall.Kill(os.Getpid(), s)) }
	kill(syscall.SIGHUP)
	assert.True(t, <-came)
	seen := make(chan os.Signal, 2)
	signal.Notify(seen, syscall.SIGHUP)
	for range 2 {
		kill(syscall.SIGHUP)
		<-seen
	}
	signal.Stop(seen) // waits until the service has seen them too
	hold <- struct{}{}
	assert.True(t, <-came)
	kill(syscall.SIGTERM)
	require.NoError(t, <-ended)
	close(hold)
	assert.Empty(t, came)
	text := make([]byte, 100)
	var states []string
	require.NoError(t, systemd.SetReadDeadline(time.Now().Add(time.Minute)))
	for range 5 {
		n, err := systemd.Read(text)
		require.NoError(t, err)
		state, _, _ := strings.Cut(string(text[:n]), "\n")
		states = append(states, state)
	}
	assert.Equal(t, []string{"READY=1", "RELOADING=1", "READY=1", "RELOADING=1", "STOPPING=1"}, states)
	require.NoError(t, systemd.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = systemd.Read(text)
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
