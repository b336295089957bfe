package ioreader_test

import (
	"bytes"
	"context"
	"io"
	"net"
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

func TestCopyRefusesBadArguments(t *testing.T) {
	_, err := ioreader.Copy(t.Context(), io.Discard, strings.NewReader(""), ioreader.CopyOptions{BufferSize: -1})
	require.EqualError(t, err, "ioreader: CopyOptions.BufferSize = -1, want at least 0")
	_, err = ioreader.Copy(t.Context(), nil, strings.NewReader(""), ioreader.CopyOptions{})
	require.Error(t, err)
	_, err = ioreader.Copy(t.Context(), io.Discard, nil, ioreader.CopyOptions{})
	require.Error(t, err)
	n, err := ioreader.Copy(canceled(t.Context()), io.Discard, strings.NewReader("text"), ioreader.CopyOptions{})
	require.Zero(t, n)
	require.Equal(t, context.Canceled, err)
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

// TestEveryByteIsCopied copies each kind of source to each kind of destination, in each way.
func TestEveryByteIsCopied(t *testing.T) {
	want := pattern(300_000)
	l := perSecond(t, 1<<30)
	sources := map[string]func(t *testing.T) io.Reader{
		"bytes":          func(*testing.T) io.Reader { return bytes.NewReader(want) },
		"halves and end": func(*testing.T) io.Reader { return iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(want))) },
		"file":           func(t *testing.T) io.Reader { return fileOf(t, want) },
		"part of a file": func(t *testing.T) io.Reader { return io.LimitReader(fileOf(t, append(want, "more"...)), 300_000) },
		"rest of a file": func(t *testing.T) io.Reader {
			f := fileOf(t, append([]byte("first"), want...))
			_, err := f.Seek(5, io.SeekStart)
			require.NoError(t, err)
			return f
		},
		"file of unknown size":   func(t *testing.T) io.Reader { return sizeless{fileOf(t, want), 0} },
		"file that seems small":  func(t *testing.T) io.Reader { return sizeless{fileOf(t, want), 4096} },
		"file that seems larger": func(t *testing.T) io.Reader { return sizeless{fileOf(t, want), 1 << 20} },
	}
	destinations := map[string]func(t *testing.T) (dst io.Writer, content func() []byte){
		"buffer": func(*testing.T) (io.Writer, func() []byte) {
			var b bytes.Buffer
			return &b, b.Bytes
		},
		"file": func(t *testing.T) (io.Writer, func() []byte) {
			f := fileOf(t, nil)
			return f, func() []byte {
				content, err := os.ReadFile(f.Name())
				require.NoError(t, err)
				return content
			}
		},
		"TCP": func(t *testing.T) (io.Writer, func() []byte) {
			a, b := tcp(t)
			all := drain(b)
			return a, func() []byte {
				require.NoError(t, a.Close())
				return <-all
			}
		},
	}
	conn := func(t *testing.T, dst io.Writer, o ioreader.ConnOptions) io.Writer {
		if c, ok := dst.(net.Conn); ok {
			limited, err := ioreader.NewConn(c, o)
			require.NoError(t, err)
			return limited
		}
		return ioreader.NewWriter(t.Context(), dst, o.Write)
	}
	ways := map[string]func(t *testing.T, dst io.Writer, src io.Reader) (int64, error){
		"Copy": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return ioreader.Copy(t.Context(), dst, src, ioreader.CopyOptions{Limiter: l})
		},
		"Copy, unlimited, by a small buffer": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return ioreader.Copy(t.Context(), dst, src, ioreader.CopyOptions{BufferSize: 999})
		},
		"WriteTo": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(dst, ioreader.NewReader(t.Context(), src, l))
		},
		"ReadFrom": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(ioreader.NewWriter(t.Context(), dst, l), src)
		},
		"both": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(ioreader.NewWriter(t.Context(), dst, l), ioreader.NewReader(t.Context(), src, l))
		},
		"two parts": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			w := ioreader.NewWriter(t.Context(), dst, l)
			n, err := io.CopyN(w, src, 100_000)
			require.NoError(t, err)
			m, err := io.Copy(w, src)
			return n + m, err
		},
		"connection": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(conn(t, dst, ioreader.ConnOptions{Write: l}), src)
		},
		"connection without limits": func(t *testing.T, dst io.Writer, src io.Reader) (int64, error) {
			return io.Copy(conn(t, dst, ioreader.ConnOptions{}), src)
		},
	}
	for from, source := range sources {
		for to, destination := range destinations {
			for how, move := range ways {
				t.Run(from+" to "+to+" by "+how, func(t *testing.T) {
					dst, content := destination(t)
					n, err := move(t, dst, source(t))
					require.NoError(t, err)
					require.Equal(t, int64(len(want)), n)
					require.True(t, bytes.Equal(want, content()))
				})
			}
		}
	}
}

// TestOnProgressThatPanics is called once.
func TestOnProgressThatPanics(t *testing.T) {
	calls := 0
	require.PanicsWithValue(t, "progress", func() {
		_, _ = ioreader.Copy(t.Context(), io.Discard, slowReader{}, ioreader.CopyOptions{OnProgress: func(ioreader.Progress) {
			calls++
			panic("progress")
		}})
	})
	require.Equal(t, 1, calls)
}

// slowReader reads a byte at a time, without an end.
type slowReader struct{}

func (slowReader) Read([]byte) (int, error) { return 1, nil }
