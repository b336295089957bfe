package shared_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
)

// TestEnd: what watches a server, and what has subscribed to it, ends with the context.
func TestEnd(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := shared.Open("redis://127.0.0.1:1", 0) // where no server is
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	down := make(chan error, 1)
	known := s.Watch(ctx, func(err error) { down <- err })
	ready := s.Subscribe(ctx, "channel", func(string) {}, func(error) {})
	require.True(t, shared.IsStore(<-down))
	<-known
	<-ready
	cancel()
	require.NoError(t, s.Close())
	require.Eventually(t, func() bool { return goleak.Find(before) == nil }, time.Minute, time.Millisecond)
}
