package testkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/testkit"
)

var errOwn = errors.New("own")

func TestContext(t *testing.T) {
	ctx := testkit.NewContext()
	require.NoError(t, ctx.Err())
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx.End(errOwn)
	<-derived.Done()
	require.Equal(t, errOwn, ctx.Err())
	require.Equal(t, errOwn, derived.Err())
}

func TestBubble(t *testing.T) {
	testkit.Bubble(t, "time", func(t *testing.T) {
		start := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, time.Hour, time.Since(start))
	})
}

func TestOwnError(t *testing.T) {
	testkit.Bubble(t, "deadline", func(t *testing.T) {
		embedded, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx := testkit.OwnError{Context: embedded, Own: errOwn}
		require.NoError(t, ctx.Err())
		derived, stop := context.WithCancel(ctx)
		defer stop()
		<-ctx.Done()
		<-derived.Done() // a moment later
		require.Equal(t, errOwn, ctx.Err())
		require.Equal(t, context.DeadlineExceeded, derived.Err())
	})
}
