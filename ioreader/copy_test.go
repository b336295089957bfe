package ioreader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/ioreader"
)

func TestCopyCopies(t *testing.T) {
	want := pattern(100_000)
	for name, src := range map[string]io.Reader{
		"a reader":           bytes.NewReader(want),
		"a file":             fileOf(t, want),
		"part of a file":     io.LimitReader(fileOf(t, append(want, "more"...)), 100_000),
		"byte by byte":       iotest.OneByteReader(bytes.NewReader(want)),
		"end with the bytes": iotest.DataErrReader(bytes.NewReader(want)),
	} {
		for _, buffer := range []int{0, 1, 999, 1 << 20} {
			var dst bytes.Buffer
			l := perSecond(t, 1<<30)
			n, err := ioreader.Copy(t.Context(), &dst, src, ioreader.CopyOptions{Limiter: l, BufferSize: buffer})
			require.NoError(t, err, name)
			require.Equal(t, int64(len(want)), n, name)
			require.Equal(t, want, dst.Bytes(), name)
			s, ok := src.(io.Seeker)
			if !ok {
				break
			}
			_, err = s.Seek(0, io.SeekStart)
			require.NoError(t, err)
		}
	}
}

func TestCopyFromFileToFile(t *testing.T) {
	want := pattern(3 << 20)
	src, dst := fileOf(t, want), fileOf(t, nil)
	_, err := src.Seek(5, io.SeekStart)
	require.NoError(t, err)
	n, err := ioreader.Copy(t.Context(), dst, src, ioreader.CopyOptions{Limiter: perSecond(t, 1<<30)})
	require.NoError(t, err)
	require.Equal(t, int64(len(want)-5), n)
	got, err := os.ReadFile(dst.Name())
	require.NoError(t, err)
	require.Equal(t, want[5:], got)
}

// fileOf returns an open file of these bytes.
func fileOf(t *testing.T, content []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, content, 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCopyTakesItsTimeAndTellsHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []ioreader.Progress
		start := time.Now()
		n, err := ioreader.Copy(t.Context(), io.Discard, bytes.NewReader(make([]byte, 30_000)), ioreader.CopyOptions{
			Limiter:    bucketOf(t, 100, 1, 100*time.Microsecond), // 10 kB/s
			Total:      30_000,
			OnProgress: func(p ioreader.Progress) { told = append(told, p) },
		})
		require.NoError(t, err)
		require.Equal(t, int64(30_000), n)
		require.Equal(t, 2990*time.Millisecond, time.Since(start))
		require.InDelta(t, 30, len(told), 2)
		for i, p := range told[1 : len(told)-1] {
			require.GreaterOrEqual(t, p.Elapsed-told[i].Elapsed, 100*time.Millisecond)
			require.Less(t, p.Elapsed-told[i].Elapsed, 110*time.Millisecond)
			require.InEpsilon(t, 10_000, p.Rate, 0.1)
			left := time.Duration(float64(30_000-p.Bytes) / p.Rate * float64(time.Second))
			require.Equal(t, left, p.Remaining)
		}
		require.InEpsilon(t, 10_000, told[20].Rate, 0.01) // the burst is out of sight
		last := told[len(told)-1]
		require.Equal(t, int64(30_000), last.Bytes)
		require.Equal(t, int64(30_000), last.Total)
		require.Equal(t, 2990*time.Millisecond, last.Elapsed)
		require.Zero(t, last.Remaining)
	})
}

func TestProgressOfAnUnknownTotalHasNoEnd(t *testing.T) {
	var last ioreader.Progress
	_, err := ioreader.Copy(t.Context(), io.Discard, strings.NewReader("text"), ioreader.CopyOptions{
		OnProgress: func(p ioreader.Progress) { last = p },
	})
	require.NoError(t, err)
	require.Equal(t, int64(4), last.Bytes)
	require.Zero(t, last.Total)
	require.Zero(t, last.Remaining)
}

func TestCopyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := bucketOf(t, 100, 10, 10*time.Millisecond)
		var last ioreader.Progress
		n, err := ioreader.Copy(&hiding{ctx}, io.Discard, bytes.NewReader(make([]byte, 30_000)), ioreader.CopyOptions{
			Limiter: l, OnProgress: func(p ioreader.Progress) { last = p },
		})
		require.Equal(t, context.DeadlineExceeded, err)
		require.InDelta(t, 1100, n, 100) // a slice
		require.Equal(t, n, last.Bytes)
		require.Equal(t, time.Second, last.Elapsed)
		require.Zero(t, l.Statistics().Queued)
	})
}

// hiding hides its deadline, so that no limiter rejects the request early.
type hiding struct{ context.Context }

func (hiding) Deadline() (time.Time, bool) { return time.Time{}, false }

func TestCopyReturnsTheErrorsOfBothEnds(t *testing.T) {
	cause := errors.New("broken")
	l := bucketOf(t, 1<<20, 1, time.Hour)
	n, err := ioreader.Copy(t.Context(), io.Discard, &failing{10, cause}, ioreader.CopyOptions{Limiter: l})
	require.Equal(t, int64(10), n)
	require.Equal(t, cause, err)
	require.Equal(t, 1<<20-10, l.Available())
	n, err = ioreader.Copy(t.Context(), &failing{10, cause}, bytes.NewReader(make([]byte, 100)), ioreader.CopyOptions{Limiter: l})
	require.Equal(t, int64(10), n)
	require.Equal(t, cause, err)
	require.Equal(t, 1<<20-20, l.Available())
}

func TestCopyRefusesBadArguments(t *testing.T) {
	_, err := ioreader.Copy(t.Context(), io.Discard, strings.NewReader(""), ioreader.CopyOptions{BufferSize: -1, Total: -2})
	require.EqualError(t, err, "ioreader: CopyOptions.BufferSize = -1, want at least 0\nioreader: CopyOptions.Total = -2, want at least 0")
	_, err = ioreader.Copy(t.Context(), nil, strings.NewReader(""), ioreader.CopyOptions{})
	require.Error(t, err)
	_, err = ioreader.Copy(t.Context(), io.Discard, nil, ioreader.CopyOptions{})
	require.Error(t, err)
	n, err := ioreader.Copy(canceled(t.Context()), io.Discard, strings.NewReader("text"), ioreader.CopyOptions{})
	require.Zero(t, n)
	require.Equal(t, context.Canceled, err)
}

func TestIOCopyUsesBothEnds(t *testing.T) {
	want := pattern(200_000)
	l := perSecond(t, 1<<30)
	for name, move := range map[string]func(dst io.Writer, src io.Reader) (int64, error){
		"WriteTo": func(dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(dst, ioreader.NewReader(t.Context(), src, l))
		},
		"ReadFrom": func(dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(ioreader.NewWriter(t.Context(), dst, l), src)
		},
		"both": func(dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(ioreader.NewWriter(t.Context(), dst, l), ioreader.NewReader(t.Context(), src, l))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var dst bytes.Buffer
			n, err := move(&dst, bytes.NewReader(want))
			require.NoError(t, err)
			require.Equal(t, int64(len(want)), n)
			require.Equal(t, want, dst.Bytes())
			src, file := fileOf(t, want), fileOf(t, nil)
			n, err = move(file, src)
			require.NoError(t, err)
			require.Equal(t, int64(len(want)), n)
			got, err := os.ReadFile(file.Name())
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestALimitedReaderIsCountedDown(t *testing.T) {
	src := &io.LimitedReader{R: fileOf(t, pattern(1000)), N: 600}
	dst := fileOf(t, nil)
	n, err := ioreader.NewWriter(t.Context(), dst, perSecond(t, 1<<30)).ReadFrom(src)
	require.NoError(t, err)
	require.Equal(t, int64(600), n)
	require.Zero(t, src.N)
	var plain bytes.Buffer
	src.N = 100
	n, err = ioreader.NewWriter(t.Context(), &plain, nil).ReadFrom(src)
	require.NoError(t, err)
	require.Equal(t, int64(100), n)
	require.Equal(t, pattern(1000)[600:700], plain.Bytes())
}
