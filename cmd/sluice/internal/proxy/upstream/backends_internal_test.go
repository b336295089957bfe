package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTooManyFiles: that this process has no room for a connection says nothing of the backend.
func TestTooManyFiles(t *testing.T) {
	b := NewBackends(func(format string, args ...any) { t.Errorf(format, args...) }, func(context.Context, string) {})
	b.Set([]*url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}, 0, false)
	b.current.Load().http1.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host/", nil)
	require.NoError(t, err)
	_, err = b.RoundTrip(r)
	assert.True(t, IsExhausted(err), "%v", err)
	assert.Equal(t, map[string]bool{"http://127.0.0.1:1": true}, b.Up())
}

// TestOrder: requests go to the backends round-robin, and to unreachable ones last. A backend that stays in the file stays
// unreachable.
func TestOrder(t *testing.T) {
	urls := make([]*url.URL, 3)
	for i := range urls {
		urls[i] = &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", i+1)}
	}
	b := NewBackends(t.Logf, nil)
	b.Set(urls, 0, false)
	b.current.Load().all[0].unreachable.Store(true)
	b.Set(urls[:2], 0, false)
	b.Set(urls, 0, false)
	first := make(map[string]int)
	for range 30 {
		order := b.order(b.current.Load().all)
		first[order[0].name]++
		assert.Equal(t, "http://127.0.0.1:1", order[2].name)
	}
	assert.Equal(t, map[string]int{"http://127.0.0.1:2": 15, "http://127.0.0.1:3": 15}, first)
}

// TestConnectionsStay: a reload that does not change the backends keeps the connections to them, and one that does closes them.
func TestConnectionsStay(t *testing.T) {
	var dialed atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialed.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	to, err := url.Parse(s.URL)
	require.NoError(t, err)
	b := NewBackends(t.Logf, func(context.Context, string) {})
	t.Cleanup(b.Close)
	for i, want := range []struct {
		limit  time.Duration
		dialed int32
	}{{0, 1}, {0, 1}, {time.Minute, 2}, {time.Minute, 2}} {
		b.Set([]*url.URL{to}, want.limit, i%2 == 0)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		a, err := b.RoundTrip(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, a.Body)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		require.Equal(t, want.dialed, dialed.Load(), "%d", i)
	}
}

// TestSlowPeer: a Write that tries again finds room after each step that a peer takes, also where the kernel would not wake it; and
// what has been written for a backend is not far ahead of it.
func TestSlowPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	much := make([]byte, 64<<20) // more than any buffers take
	for name, dial := range map[string]func() (net.Conn, error){
		"client":  func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		"backend": func() (net.Conn, error) { return dialBackend(t.Context(), "tcp", l.Addr().String()) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dial()
			require.NoError(t, err)
			defer func() { _ = c.Close() }()
			peer, err := l.Accept()
			require.NoError(t, err)
			defer func() { _ = peer.Close() }()
			tries := func() int {
				n, err := Write(c, much, 50*time.Millisecond)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				return n
			}
			written := 0
			for n := tries(); n > 0; n = tries() {
				written += n
			}
			if name == "backend" && runtime.GOOS == "linux" {
				assert.Less(t, written, 1<<20)
			}
			_, err = io.CopyN(io.Discard, peer, 128<<10)
			require.NoError(t, err)
			n := 0
			for i := 0; i < 100 && n == 0; i++ {
				n = tries()
			}
			assert.Positive(t, n)
		})
	}
}

// TestSlowWrite: a peer that takes a byte within the limit, again and again, gets all of a Write.
func TestSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _ = theirs.Close() }()
		go func() {
			for range 20 {
				time.Sleep(silence - silence/writeTries)
				_, err := io.ReadFull(theirs, make([]byte, 1))
				assert.NoError(t, err)
			}
		}()
		n, err := Write(ours, make([]byte, 20), silence)
		require.NoError(t, err)
		assert.Equal(t, 20, n)
	})
}
