//go:build unix

package service_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

// TestReloadHoldsUpNoSignal: SIGTERM ends a service also while it reads its files, and reloads that are asked for meanwhile are one.
func TestReloadHoldsUpNoSignal(t *testing.T) {
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
	kill(syscall.SIGHUP)
	kill(syscall.SIGHUP)
	hold <- struct{}{}
	assert.True(t, <-came)
	kill(syscall.SIGTERM)
	require.NoError(t, <-ended)
	close(hold)
	assert.Empty(t, came)
}
