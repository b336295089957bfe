package pipe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/pipe"
)

var errBroken = errors.New("broken")

func TestOptionsThatHoldANilPointer(t *testing.T) {
	t.Parallel()
	_, _, err := pipe.New(pipe.Options{WriteLimiter: (*core.TokenBucket)(nil), ReadLimiter: (*core.ChainedLimiter)(nil)})
	assert.EqualError(t, err, "pipe: Options.WriteLimiter is a nil *core.TokenBucket, want a limiter, or nil for none\n"+
		"pipe: Options.ReadLimiter is a nil *core.ChainedLimiter, want a limiter, or nil for none")

	_, _, err = pipe.Conns(pipe.Options{}, pipe.Options{ReadLimiter: (*core.FixedWindow)(nil)})
	assert.EqualError(t, err, "pipe: b.ReadLimiter is a nil *core.FixedWindow, want a limiter, or nil for none")
}

func TestZeroValuesRefuse(t *testing.T) {
	t.Parallel()
	var r pipe.Reader
	var w pipe.Writer
	for name, call := range map[string]func() error{
		"Read":     func() error { _, err := r.Read(make([]byte, 1)); return err },
		"WriteTo":  func() error { _, err := r.WriteTo(io.Discard); return err },
		"Write":    func() error { _, err := w.Write([]byte("a")); return err },
		"ReadFrom": func() error { _, err := w.ReadFrom(strings.NewReader("a")); return err },
	} {
		assert.ErrorIs(t, call(), io.ErrClosedPipe, name)
		assert.ErrorIs(t, call(), core.ErrClosed, name)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.ReadContext(done, make([]byte, 1))
	assert.Equal(t, context.Canceled, err)
	_, err = w.WriteContext(done, []byte("a"))
	assert.Equal(t, context.Canceled, err)
	assert.NoError(t, r.Close())
	assert.NoError(t, w.Close())
	assert.Zero(t, r.Buffered())
}

func TestEmptyCallsDoNotWait(t *testing.T) {
	t.Parallel()
	r, w := newPipe(t, pipe.Options{})
	n, err := w.Write(nil)
	assert.Zero(t, n)
	assert.NoError(t, err)
	n, err = r.Read(nil)
	assert.Zero(t, n)
	assert.NoError(t, err)

	require.NoError(t, w.CloseWithError(errBroken))
	_, err = w.Write(nil)
	assert.Equal(t, io.ErrClosedPipe, err)
	_, err = r.Read(nil)
	assert.Equal(t, errBroken, err)
	require.NoError(t, r.Close())
	_, err = r.Read(nil)
	assert.Equal(t, io.ErrClosedPipe, err)
}

// TestEndsAsIOPipe closes the ends in every way, and asks io.Pipe for the answers.
func TestEndsAsIOPipe(t *testing.T) {
	t.Parallel()
	type ends interface{ CloseWithError(error) error }
	for _, first := range []string{"reader", "writer"} {
		for _, second := range []string{"", "reader", "writer"} {
			for _, err := range []error{nil, errBroken} {
				var results [2][2]error
				for i := range results {
					var r io.Reader
					var w io.Writer
					if r, w = newPipe(t, pipe.Options{}); i == 1 {
						r, w = io.Pipe()
					}
					for j, end := range []string{first, second} {
						e := err
						if j == 1 {
							e = errors.New("too late")
						}
						switch end {
						case "reader":
							assert.NoError(t, r.(ends).CloseWithError(e))
						case "writer":
							assert.NoError(t, w.(ends).CloseWithError(e))
						}
					}
					_, results[i][0] = r.Read(make([]byte, 1))
					_, results[i][1] = w.Write([]byte("a"))
				}
				if first == "reader" && second == "writer" || first == "writer" && second == "reader" {
					// The errors differ in a word, because each call creates its own.
					assert.Equal(t, results[1][0].Error(), results[0][0].Error())
					assert.Equal(t, results[1][1].Error(), results[0][1].Error())
					continue
				}
				assert.Equal(t, results[1], results[0], "%s, then %q, with %v", first, second, err)
			}
		}
	}
}

// Close ends the calls that wait for the other side, for permits, or for their turn.
func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		close   func(*pipe.Reader, *pipe.Writer, *core.ConcurrencyLimiter)
		read    bool
		wantErr error
	}{
		"read, reader closed":   {func(r *pipe.Reader, _ *pipe.Writer, _ *core.ConcurrencyLimiter) { _ = r.Close() }, true, io.ErrClosedPipe},
		"read, writer closed":   {func(_ *pipe.Reader, w *pipe.Writer, _ *core.ConcurrencyLimiter) { _ = w.Close() }, true, io.EOF},
		"read, writer failed":   {func(_ *pipe.Reader, w *pipe.Writer, _ *core.ConcurrencyLimiter) { _ = w.CloseWithError(errBroken) }, true, errBroken},
		"write, reader closed":  {func(r *pipe.Reader, _ *pipe.Writer, _ *core.ConcurrencyLimiter) { _ = r.Close() }, false, io.ErrClosedPipe},
		"write, reader failed":  {func(r *pipe.Reader, _ *pipe.Writer, _ *core.ConcurrencyLimiter) { _ = r.CloseWithError(errBroken) }, false, errBroken},
		"write, writer closed":  {func(_ *pipe.Reader, w *pipe.Writer, _ *core.ConcurrencyLimiter) { _ = w.Close() }, false, io.ErrClosedPipe},
		"write, limiter closed": {func(_ *pipe.Reader, _ *pipe.Writer, l *core.ConcurrencyLimiter) { _ = l.Close() }, false, core.ErrClosed},
	} {
		for kind := range limiterKinds(t) {
			if kind != "concurrency" && errors.Is(test.wantErr, core.ErrClosed) {
				continue // only that limiter is closed
			}
			testkit.Bubble(t, name+" "+kind, func(t *testing.T) {
				held := concurrency(t, 4, math.MaxInt)
				l := limiterKinds(t)[kind]
				if kind == "concurrency" {
					l = held
				}
				o := pipe.Options{WriteLimiter: l}
				if test.read {
					o = pipe.Options{ReadLimiter: l}
				}
				r, w := newPipe(t, o)
				start := time.Now()
				for range 3 { // one waits for the other side or for permits, the others for their turn
					go func() {
						if test.read {
							n, err := r.Read(make([]byte, 9))
							assert.Zero(t, n)
							assert.Equal(t, test.wantErr, err)
							return
						}
						n, err := w.Write(make([]byte, 8))
						assert.Contains(t, []int{0, 4}, n)
						assert.Equal(t, test.wantErr, err)
					}()
				}
				synctest.Wait()
				test.close(r, w, held)
				synctest.Wait()
				assert.Zero(t, time.Since(start))
				if s, ok := l.(core.Reporter); ok {
					assert.Zero(t, s.Statistics().Queued, "no request waits any more")
				}
			})
		}
	}
}

// A Read that waits for permits ends with its context and with Close, and loses no byte.
func TestAThrottledReadEndsImmediately(t *testing.T) {
	t.Parallel()
	for kind := range limiterKinds(t) {
		testkit.Bubble(t, kind, func(t *testing.T) {
			l := limiterKinds(t)[kind]
			require.True(t, l.TryAcquire(4).Acquired())
			r, w := newPipe(t, pipe.Options{ReadLimiter: l})
			writes(t, w, "abcdef")
			require.NoError(t, w.Close()) // the buffered bytes can still be read
			start := time.Now()
			ends := func(ctx context.Context, want error, end func()) {
				done := make(chan error)
				go func() {
					_, err := r.ReadContext(ctx, make([]byte, 9))
					done <- err
				}()
				synctest.Wait()
				end()
				assert.Equal(t, want, <-done)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ends(ctx, context.Canceled, cancel)
			assert.Equal(t, 6, r.Buffered())
			ends(t.Context(), io.ErrClosedPipe, func() { _ = r.Close() })
			assert.Zero(t, time.Since(start))
		})
	}
}

func TestReaderHoldsToItsContract(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("all's well that ends well. "), 10_000)
	for _, o := range []pipe.Options{{}, {WriteLimiter: concurrency(t, 1000, 1<<20)}, {ReadLimiter: concurrency(t, 1000, 1<<20)}} {
		r, w := newPipe(t, o)
		go func() {
			for i := 0; i < len(content); i += 777 {
				_, _ = w.Write(content[i:min(i+777, len(content))])
			}
			_ = w.Close()
		}()
		assert.NoError(t, iotest.TestReader(r, content))
	}
}

func TestReadFrom(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("x", 200_000)
	for name, test := range map[string]struct {
		source  io.Reader
		wantN   int64
		wantErr error
	}{
		"whole":                 {strings.NewReader(content), 200_000, nil},
		"one byte at a time":    {iotest.OneByteReader(strings.NewReader(content[:5000])), 5000, nil},
		"end with the data":     {iotest.DataErrReader(strings.NewReader(content)), 200_000, nil},
		"broken":                {io.MultiReader(strings.NewReader(content), iotest.ErrReader(errBroken)), 200_000, errBroken},
		"broken from the start": {iotest.ErrReader(errBroken), 0, errBroken},
		"broken in the midst":   {iotest.TimeoutReader(iotest.HalfReader(strings.NewReader(content))), 32 << 10, iotest.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := newPipe(t, pipe.Options{})
			go func() {
				n, err := w.ReadFrom(test.source)
				assert.Equal(t, test.wantN, n)
				assert.Equal(t, test.wantErr, err)
				_ = w.Close()
			}()
			got, err := io.ReadAll(r)
			assert.NoError(t, err)
			assert.Equal(t, content[:test.wantN], string(got))
		})
	}

	r, w := newPipe(t, pipe.Options{})
	require.NoError(t, r.CloseWithError(errBroken))
	n, err := w.ReadFrom(strings.NewReader("too late"))
	assert.Zero(t, n)
	assert.Equal(t, errBroken, err)
}

func TestWriteTo(t *testing.T) {
	t.Parallel()
	r, w := newPipe(t, pipe.Options{})
	content := strings.Repeat("0123456789", 20_000)
	go func() {
		for i := 0; i < len(content); i += 20_000 {
			_, err := io.WriteString(w, content[i:i+20_000])
			assert.NoError(t, err)
		}
		assert.NoError(t, w.CloseWithError(errBroken))
	}()
	var got strings.Builder
	n, err := r.WriteTo(&got)
	assert.Equal(t, int64(len(content)), n)
	assert.Equal(t, errBroken, err)
	assert.Equal(t, content, got.String())

	for name, sink := range map[string]struct {
		writer  io.Writer
		wantN   int64
		wantErr error
	}{
		"short":  {writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil }), 2, io.ErrShortWrite},
		"broken": {writerFunc(func([]byte) (int, error) { return 1, errBroken }), 1, errBroken},
	} {
		r, w := newPipe(t, pipe.Options{})
		writes(t, w, "abc")
		n, err := io.Copy(sink.writer, r)
		assert.Equal(t, sink.wantN, n, name)
		assert.Equal(t, sink.wantErr, err, name)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSteadyWritesAndReadsAllocateNothing(t *testing.T) {
	if testkit.Race {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	for name, o := range map[string]pipe.Options{
		"unlimited":   {},
		"concurrency": {WriteLimiter: concurrency(t, 32<<10, 0), ReadLimiter: concurrency(t, 32<<10, 0)},
	} {
		r, w := newPipe(t, o)
		for _, size := range []int{1, 512, 4 << 10, 32 << 10} {
			in, out := make([]byte, size), make([]byte, size)
			transfer := func() {
				for range 3 {
					_, _ = w.Write(in)
					_, _ = r.Read(out)
				}
			}
			for range 100 {
				transfer()
			}
			assert.Zero(t, testing.AllocsPerRun(100, transfer), "%s, %d bytes", name, size)
		}
	}
}
