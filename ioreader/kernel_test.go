package ioreader_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// sizeless is a file whose size is said to be another, as those of /proc are.
type sizeless struct {
	*os.File
	size int64
}

func (s sizeless) Stat() (fs.FileInfo, error) {
	info, err := s.File.Stat()
	return sized{info, s.size}, err
}

type sized struct {
	fs.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

func TestAFileWhoseSizeIsNotTrueIsCopiedWhole(t *testing.T) {
	want := pattern(100_000)
	for name, size := range map[string]int64{"none": 0, "too small": 4096, "too large": 1 << 20} {
		for how, send := range map[string]func(dst *os.File, src io.Reader) (int64, error){
			"Copy": func(dst *os.File, src io.Reader) (int64, error) {
				return ioreader.Copy(t.Context(), dst, src, ioreader.CopyOptions{})
			},
			"Copy with a limit": func(dst *os.File, src io.Reader) (int64, error) {
				return ioreader.Copy(t.Context(), dst, src, ioreader.CopyOptions{Limiter: perSecond(t, 1<<30)})
			},
			"Writer": func(dst *os.File, src io.Reader) (int64, error) {
				return ioreader.NewWriter(t.Context(), dst, perSecond(t, 1<<30)).ReadFrom(src)
			},
			"Reader": func(dst *os.File, src io.Reader) (int64, error) {
				return ioreader.NewReader(t.Context(), src, perSecond(t, 1<<30)).WriteTo(dst)
			},
			"part": func(dst *os.File, src io.Reader) (int64, error) {
				w := ioreader.NewWriter(t.Context(), dst, perSecond(t, 1<<30))
				n, err := w.ReadFrom(io.LimitReader(src, 60_000))
				require.NoError(t, err)
				require.Equal(t, int64(60_000), n)
				m, err := w.ReadFrom(src)
				return n + m, err
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				dst := fileOf(t, nil)
				n, err := send(dst, sizeless{fileOf(t, want), size})
				require.NoError(t, err)
				require.Equal(t, int64(len(want)), n)
				got, err := os.ReadFile(dst.Name())
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
			})
		}
	}
}

func TestAFileOfTheSystemIsCopiedWhole(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Skip("there is no such file here")
	}
	for _, l := range []core.Limiter{nil, perSecond(t, 1<<30)} {
		src, err := os.Open("/proc/version")
		require.NoError(t, err)
		t.Cleanup(func() { src.Close() })
		a, b := tcp(t)
		all := drain(b)
		n, err := ioreader.Copy(t.Context(), a, src, ioreader.CopyOptions{Limiter: l})
		require.NoError(t, err)
		require.Equal(t, int64(len(want)), n)
		require.NoError(t, a.Close())
		require.Equal(t, string(want), string(<-all))
	}
}

// TestStreamsOfOneSemaphoreNeverWaitForEachOther: none holds permits while it asks for
// others of the same limiter.
func TestStreamsOfOneSemaphoreNeverWaitForEachOther(t *testing.T) {
	want := pattern(800)
	for name, move := range map[string]func(l core.Limiter, dst, src *os.File) error{
		"Reader to Writer": func(l core.Limiter, dst, src *os.File) error {
			_, err := io.Copy(ioreader.NewWriter(t.Context(), dst, l), ioreader.NewReader(t.Context(), src, l))
			return err
		},
		"Copy to Writer": func(l core.Limiter, dst, src *os.File) error {
			_, err := ioreader.Copy(t.Context(), ioreader.NewWriter(t.Context(), dst, l), src, ioreader.CopyOptions{Limiter: l})
			return err
		},
		"Writer to Writer": func(l core.Limiter, dst, src *os.File) error {
			inner := ioreader.NewWriter(t.Context(), dst, l)
			between := ioreader.NewWriter(t.Context(), inner, nil)
			_, err := io.Copy(ioreader.NewWriter(t.Context(), between, l), struct{ io.Reader }{src})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := semaphore(t, 4)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for range 8 {
				src, dst := fileOf(t, want), fileOf(t, nil)
				all.Go(func() {
					if err := move(l, dst, src); err != nil {
						t.Error(err)
					}
				})
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				all.Wait()
			}()
			select {
			case <-done:
			case <-ctx.Done():
				t.Error("they wait for each other")
				_ = l.Close()
				<-done
			}
		})
	}
}

// TestATrickleFromTCPToTCPPasses: byte by byte, each with its report, and the context
// counts.
func TestATrickleFromTCPToTCPPasses(t *testing.T) {
	for name, limiter := range map[string]core.Limiter{"unlimited": nil, "limited": perSecond(t, 1<<30)} {
		t.Run(name, func(t *testing.T) {
			src, from := tcp(t)
			to, dst := tcp(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type result struct {
				n   int64
				err error
			}
			copied := make(chan result, 1)
			go func() {
				n, err := ioreader.Copy(ctx, to, from, ioreader.CopyOptions{Limiter: limiter})
				copied <- result{n, err}
			}()
			for i := range 10 {
				_, err := src.Write([]byte{byte(i)})
				require.NoError(t, err)
				p := make([]byte, 10)
				n, err := dst.Read(p)
				require.NoError(t, err)
				require.Equal(t, []byte{byte(i)}, p[:n])
			}
			cancel()
			_, err := src.Write([]byte{10})
			require.NoError(t, err)
			got := <-copied
			require.Equal(t, context.Canceled, got.err)
			require.GreaterOrEqual(t, got.n, int64(10))
		})
	}
}

func TestAnEndOfATrickleIsSeen(t *testing.T) {
	src, from := tcp(t)
	to, dst := tcp(t)
	all := drain(dst)
	moved := make(chan int64, 1)
	go func() {
		n, err := ioreader.Copy(t.Context(), to, from, ioreader.CopyOptions{})
		if err != nil {
			t.Error(err)
		}
		moved <- n
	}()
	_, err := src.Write([]byte("some text"))
	require.NoError(t, err)
	require.NoError(t, src.Close())
	require.Equal(t, int64(9), <-moved)
	require.NoError(t, to.Close())
	require.Equal(t, "some text", string(<-all))
}

func TestUnixConnectionsAreCopied(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/socket")
	require.NoError(t, err)
	defer l.Close()
	src, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	from, err := l.Accept()
	require.NoError(t, err)
	defer from.Close()
	to, dst := tcp(t)
	all := drain(dst)
	want := pattern(300_000)
	sent := writing(src, want)
	limiter, moved := perSecond(t, 1<<30), make(chan error, 1)
	go func() {
		n, err := ioreader.Copy(t.Context(), to, from, ioreader.CopyOptions{Limiter: limiter})
		if n != int64(len(want)) {
			t.Errorf("%d bytes of %d", n, len(want))
		}
		moved <- err
	}()
	require.NoError(t, (<-sent).err)
	require.NoError(t, src.Close())
	require.NoError(t, <-moved)
	require.NoError(t, to.Close())
	require.True(t, bytes.Equal(want, <-all))
}
