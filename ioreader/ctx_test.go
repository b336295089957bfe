package ioreader_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
)

// TestContextErrorIsUnchanged: any context returns its own error, wherever the call waits.
func TestContextErrorIsUnchanged(t *testing.T) {
	own := errors.New("an error of its own")
	for name, wait := range map[string]func(t *testing.T, ctx context.Context, l core.Limiter) error{
		"Writer": func(_ *testing.T, ctx context.Context, l core.Limiter) error {
			_, err := ioreader.NewWriter(ctx, io.Discard, l).Write([]byte("abc"))
			return err
		},
		"Writer whose turn has not come": func(t *testing.T, ctx context.Context, _ core.Limiter) error {
			r, under := io.Pipe()
			defer r.Close()
			w := ioreader.NewWriter(ctx, under, core.Unlimited())
			first := writing(w, []byte("abc"))
			synctest.Wait()
			_, err := w.Write([]byte("abc"))
			require.NoError(t, r.Close())
			require.Equal(t, io.ErrClosedPipe, (<-first).err)
			return err
		},
		"Reader": func(_ *testing.T, ctx context.Context, l core.Limiter) error {
			_, err := ioreader.NewReader(ctx, strings.NewReader("abc"), l).Read(make([]byte, 3))
			return err
		},
		"Copy": func(_ *testing.T, ctx context.Context, l core.Limiter) error {
			_, err := ioreader.Copy(ctx, io.Discard, strings.NewReader("abc"), ioreader.CopyOptions{Limiter: l})
			return err
		},
		"dial": func(t *testing.T, ctx context.Context, l core.Limiter) error {
			dial, _ := dialing(t, ioreader.DialerOptions{Conns: l})
			_, err := dial(ctx, "tcp", "anywhere")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := semaphore(t, 1)
				require.True(t, l.TryAcquire(1).Acquired())
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.Equal(t, own, wait(t, testkit.OwnError{Context: ctx, Own: own}, l))
				require.Equal(t, time.Second, time.Since(start))
			})
		})
	}
}
