package ioreader_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/ioreader"
)

func TestReaderIsAReader(t *testing.T) {
	want := pattern(10_000)
	for name, l := range map[string]core.Limiter{
		"unlimited": nil, "bucket": perSecond(t, 50_000_000), "semaphore": semaphore(t, 7),
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"plain":    func(r io.Reader) io.Reader { return r },
			"by bytes": iotest.OneByteReader,
			"halves":   iotest.HalfReader,
			"EOF soon": iotest.DataErrReader,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				r := ioreader.NewReader(t.Context(), wrap(bytes.NewReader(want)), l)
				require.NoError(t, iotest.TestReader(r, want))
			})
		}
	}
}

func TestARefusedReadLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tokenBucket(t, core.TokenBucketOptions{TokenLimit: 10, TokensPerPeriod: 1, ReplenishmentPeriod: time.Hour})
		r := ioreader.NewReader(t.Context(), iotest.DataErrReader(strings.NewReader("0123456789abcdef")), strange{l})
		got, err := io.ReadAll(r)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Equal(t, "0123456789", string(got))
		time.Sleep(time.Hour)
		p := make([]byte, 100)
		n, err := r.Read(p)
		require.NoError(t, err)
		require.Equal(t, "a", string(p[:n]))
		time.Sleep(100 * time.Hour)
		got, err = io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "bcdef", string(got))
	})
}

// The deadline of a Writer or Reader ends its waits, and can be moved; the zero values have none.
func TestDeadlines(t *testing.T) {
	require.Error(t, new(ioreader.Writer).SetWriteDeadline(time.Time{}))
	require.Error(t, new(ioreader.Reader).SetReadDeadline(time.Time{}))
	testkit.Bubble(t, "of a Writer", func(t *testing.T) {
		start := time.Now()
		w := ioreader.NewWriter(t.Context(), io.Discard, bucketOf(t, 1, 1, time.Second))
		require.NoError(t, w.SetWriteDeadline(start.Add(1500*time.Millisecond)))
		n, err := w.Write([]byte("abc"))
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Equal(t, 2, n)
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		_, err = w.Write([]byte("c"))
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.NoError(t, w.SetWriteDeadline(time.Time{}))
		n, err = w.Write([]byte("cd"))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, w.Close())
		require.NoError(t, w.SetWriteDeadline(time.Now()))
		_, err = w.Write([]byte("e"))
		require.Equal(t, io.ErrClosedPipe, err)
	})
	testkit.Bubble(t, "of a Reader", func(t *testing.T) {
		start := time.Now()
		r := ioreader.NewReader(t.Context(), strings.NewReader("abc"), bucketOf(t, 1, 1, time.Second))
		require.NoError(t, r.SetReadDeadline(start.Add(500*time.Millisecond)))
		got, err := io.ReadAll(r)
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Equal(t, "a", string(got))
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		require.NoError(t, r.SetReadDeadline(time.Time{}))
		got, err = io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, "bc", string(got))
	})
}

// impossible returns from each Read and Write a negative count, or one that is too large by that.
type impossible int

func (i impossible) Write(p []byte) (int, error) { return i.Read(p) }

func (i impossible) Read(p []byte) (int, error) {
	if i < 0 {
		return int(i), nil
	}
	return len(p) + int(i), nil
}

func TestImpossibleCounts(t *testing.T) {
	for _, n := range []impossible{-1, 1} {
		for name, call := range map[string]func(l core.Limiter) (int64, error){
			"Copy from": func(l core.Limiter) (int64, error) {
				return ioreader.Copy(t.Context(), io.Discard, n, ioreader.CopyOptions{Limiter: l, BufferSize: 10})
			},
			"Copy to": func(l core.Limiter) (int64, error) {
				return ioreader.Copy(t.Context(), n, strings.NewReader("abc"), ioreader.CopyOptions{Limiter: l})
			},
			"ReadFrom": func(l core.Limiter) (int64, error) {
				return ioreader.NewWriter(t.Context(), n, l).ReadFrom(strings.NewReader("abc"))
			},
			"an empty Write": func(l core.Limiter) (int64, error) {
				n, err := ioreader.NewWriter(t.Context(), n, l).Write(nil)
				return int64(n), err
			},
			"Read": func(l core.Limiter) (int64, error) {
				n, err := ioreader.NewReader(t.Context(), n, l).Read(make([]byte, 4))
				return int64(n), err
			},
		} {
			for _, l := range []core.Limiter{nil, bucketOf(t, 2000, 1, time.Hour)} {
				got, err := call(l)
				require.ErrorContains(t, err, "returned an invalid count: ", name)
				require.Zero(t, got, name)
				if l != nil {
					require.Equal(t, 2000, l.Available(), "%s: all is refunded", name)
				}
			}
		}
	}
}
