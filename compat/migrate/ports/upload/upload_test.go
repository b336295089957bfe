package upload_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/compat/migrate/ports/upload/after"
	"github.com/sluice-go/sluice/compat/migrate/ports/upload/before"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type upload func(context.Context, iter.Seq[[]byte], func(context.Context, io.Reader) error) error

func both(t *testing.T, check func(t *testing.T, u upload)) {
	t.Helper()
	for name, u := range map[string]upload{"before": before.Upload, "after": after.Upload} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, u) })
		})
	}
}

// parts makes n parts of 128 KiB.
func parts(n int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for range n {
			if !yield(make([]byte, 128<<10)) {
				return
			}
		}
	}
}

// Four mebibytes take four seconds, less what the bucket has saved up: 32 KiB before, 10 ms after.
func TestUpload(t *testing.T) {
	both(t, func(t *testing.T, u upload) {
		began := time.Now()
		var sent atomic.Int64
		require.NoError(t, u(t.Context(), parts(32), func(_ context.Context, r io.Reader) error {
			n, err := io.Copy(io.Discard, struct{ io.Reader }{r})
			sent.Add(n)
			return err
		}))
		require.EqualValues(t, 4<<20, sent.Load())
		require.InDelta(t, 4*time.Second, time.Since(began), float64(40*time.Millisecond))
	})
}

// The first error ends the producer, too.
func TestError(t *testing.T) {
	both(t, func(t *testing.T, u upload) {
		refused := errors.New("refused")
		var made int
		endless := func(yield func([]byte) bool) {
			for made = 0; yield([]byte("part")); made++ {
			}
		}
		require.ErrorIs(t, u(t.Context(), endless, func(context.Context, io.Reader) error { return refused }), refused)
		require.Less(t, made, 100)
	})
}
