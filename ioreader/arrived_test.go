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
	"github.com/sluice-go/sluice/ioreader"
)

func TestReadsThatWaitForBytesHoldNoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate, held := perSecond(t, 100_000), semaphore(t, 1000)
		for range 100 {
			for _, l := range []core.Limiter{rate, held} {
				c, _ := conns(t, ioreader.ConnOptions{Read: l})
				reading(c, make([]byte, 4096))
			}
		}
		synctest.Wait()
		require.Equal(t, 1460, rate.Available())
		require.Equal(t, 1000, held.Available())
		require.Zero(t, rate.Statistics().Queued)
	})
}

func TestBytesThatCameBeforeTheDeadlineAreThereForTheNextRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketOf(t, 16, 1, time.Second)
		require.True(t, l.TryAcquire(16).Acquired())
		c, peer := conns(t, ioreader.ConnOptions{Read: l})
		sent := writing(peer, []byte("ab"))
		require.NoError(t, c.SetReadDeadline(time.Now().Add(1500*time.Millisecond)))
		start, p := time.Now(), make([]byte, 10)
		n, err := c.Read(p)
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Zero(t, n)
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		require.NoError(t, (<-sent).err, "they were taken from the wire")
		require.Equal(t, 1, l.Available(), "and not paid for")

		require.NoError(t, c.SetReadDeadline(time.Time{}))
		n, err = io.ReadFull(c, p[:2])
		require.NoError(t, err)
		require.Equal(t, "ab", string(p[:n]))
		require.Equal(t, 2*time.Second, time.Since(start))
		require.NoError(t, peer.Close())
		_, err = c.Read(p)
		require.Equal(t, io.EOF, err)
	})
}

func TestTheEndThatCameWithBytesComesWithTheLastOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := io.ErrUnexpectedEOF
		for _, end := range []error{io.EOF, broken} {
			r := ioreader.NewReader(t.Context(), &ended{"ab", end}, &limiterOf{refusals: 2})
			for range 2 {
				n, err := r.Read(make([]byte, 10))
				require.Zero(t, n)
				require.ErrorIs(t, err, core.ErrRejected)
			}
			p := make([]byte, 1)
			n, err := r.Read(p)
			require.NoError(t, err)
			require.Equal(t, "a", string(p[:n]))
			n, err = r.Read(p)
			require.Equal(t, end, err)
			require.Equal(t, "b", string(p[:n]))
			n, err = r.Read(p)
			require.Zero(t, n)
			require.Equal(t, io.EOF, err)
		}
	})
}

// ended returns its text together with its error, and io.EOF from then on.
type ended struct {
	text string
	err  error
}

func (e *ended) Read(p []byte) (int, error) {
	if e.text == "" {
		return 0, io.EOF
	}
	n := copy(p, e.text)
	e.text = ""
	return n, e.err
}

func TestCopyFromAReaderStartsWithTheBytesThatArrivedBefore(t *testing.T) {
	refusing := func(under io.Reader) *ioreader.Reader {
		r := ioreader.NewReader(t.Context(), under, &limiterOf{refusals: 1})
		_, err := r.Read(make([]byte, 100))
		require.ErrorIs(t, err, core.ErrRejected)
		return r
	}
	want := pattern(5000)
	for name, under := range map[string]io.Reader{
		"a file": fileOf(t, want), "bytes": bytes.NewReader(want), "the end with them": iotest.DataErrReader(bytes.NewReader(want[:100])),
	} {
		t.Run(name, func(t *testing.T) {
			dst := fileOf(t, nil)
			_, err := io.Copy(dst, refusing(under))
			require.NoError(t, err)
			got, err := os.ReadFile(dst.Name())
			require.NoError(t, err)
			require.Equal(t, want[:len(got)], got)
			require.GreaterOrEqual(t, len(got), 100)
			if name != "the end with them" {
				require.Len(t, got, len(want))
			}
		})
	}
}

func TestOthersWriteWhileASourceIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := conns(t, ioreader.ConnOptions{Write: perSecond(t, 1_000_000)})
		all := drain(peer)
		idle, speak := io.Pipe()
		copied := make(chan error, 1)
		go func() {
			_, err := w.(io.ReaderFrom).ReadFrom(idle)
			copied <- err
		}()
		synctest.Wait()
		n, err := w.Write([]byte("now "))
		require.NoError(t, err)
		require.Equal(t, 4, n)
		_, err = speak.Write([]byte("later"))
		require.NoError(t, err)
		require.NoError(t, speak.Close())
		require.NoError(t, <-copied)
		require.NoError(t, w.Close())
		require.Equal(t, "now later", string(<-all))
	})
}

func TestOthersReadWhileASinkIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ioreader.NewReader(t.Context(), strings.NewReader(strings.Repeat("x", 10_000)), bucketOf(t, 4000, 1, time.Hour))
		full, drained := io.Pipe()
		defer full.Close()
		go func() { _, _ = r.WriteTo(drained) }()
		synctest.Wait()
		n, err := r.Read(make([]byte, 10))
		require.NoError(t, err)
		require.Equal(t, 10, n)
	})
}
