package ioreader_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
	"github.com/sluice-go/sluice/pipe"
)

// TestStreamsThatReadAPipeWithTheSameLimiter: all bytes pass, although those in the pipe may hold all permits.
func TestStreamsThatReadAPipeWithTheSameLimiter(t *testing.T) {
	const limit, each = 8, 100
	all := func(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) }
	for name, read := range map[string]func(ctx context.Context, r io.Reader, l core.Limiter) (int64, error){
		"Reader": func(ctx context.Context, r io.Reader, l core.Limiter) (int64, error) {
			return all(struct{ io.Reader }{ioreader.NewReader(ctx, r, l)})
		},
		"Reader.WriteTo": func(ctx context.Context, r io.Reader, l core.Limiter) (int64, error) {
			return all(ioreader.NewReader(ctx, r, l))
		},
		"Reader over Reader": func(ctx context.Context, r io.Reader, l core.Limiter) (int64, error) {
			return all(ioreader.NewReader(ctx, ioreader.NewReader(ctx, r, l), l))
		},
		"Copy": func(ctx context.Context, r io.Reader, l core.Limiter) (int64, error) {
			return ioreader.Copy(ctx, io.Discard, r, ioreader.CopyOptions{Limiter: l})
		},
	} {
		for above := range over(t, semaphore(t, 1)) {
			for below := range over(t, semaphore(t, 1)) {
				t.Run(fmt.Sprintf("%s with %s of a pipe with %s", name, above, below), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						l := semaphore(t, limit)
						limiters := over(t, l)
						r, w, err := pipe.New(pipe.Options{WriteLimiter: limiters[below]()})
						require.NoError(t, err)
						go func() {
							_, err := w.Write(make([]byte, each))
							assert.NoError(t, w.CloseWithError(err))
						}()
						n, err := read(ctx, r, limiters[above]())
						assert.NoError(t, err)
						assert.EqualValues(t, each, n)
						assert.NoError(t, r.Close())
						assert.Equal(t, limit, l.Available())
					})
				})
			}
		}
	}
}

// TestAConnectionOverAPipe: also for the two ends of a connection.
func TestAConnectionOverAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := semaphore(t, 8)
		a, b, err := pipe.Conns(pipe.Options{WriteLimiter: l}, pipe.Options{})
		require.NoError(t, err)
		c, err := ioreader.NewConn(b, ioreader.ConnOptions{Read: l})
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		go func() {
			_, _ = a.Write(make([]byte, 100))
			_ = a.Close()
		}()
		n, err := io.Copy(io.Discard, c)
		require.NoError(t, err)
		require.EqualValues(t, 100, n)
		require.Equal(t, 8, l.Available())
	})
}
