package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const silence = 10 * time.Second // how long the backends here may be silent

// far is a backend at the other end of pipes: it does as play says with each connection.
type far struct {
	t     *testing.T
	play  func(c net.Conn, r *bufio.Reader)
	delay time.Duration // of a connection
	dials int
	plays sync.WaitGroup
	conns []net.Conn
}

func (f *far) transport() http.RoundTripper {
	p := newFleet(func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(f.delay)
		f.dials++
		ours, theirs := net.Pipe()
		f.conns = append(f.conns, theirs)
		f.plays.Go(func() {
			f.play(theirs, bufio.NewReader(theirs))
			_ = theirs.Close()
		})
		return ours, nil
	}, silence)
	f.t.Cleanup(func() {
		p.closeIdle()
		for _, c := range f.conns {
			_ = c.Close()
		}
		f.plays.Wait()
	})
	return through{p}
}

// through sends requests over HTTP/1.1.
type through struct{ *fleet }

func (p through) RoundTrip(r *http.Request) (*http.Response, error) {
	return p.roundTrip(new(backend), r)
}

// takes reads a request without its body.
func takes(r *bufio.Reader) bool {
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return err == nil
		}
	}
}

// says sends what it is told to, every so often.
func says(c net.Conn, every time.Duration, texts ...string) {
	for _, text := range texts {
		time.Sleep(every)
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// slowly is a body that comes in parts.
type slowly struct {
	parts int
	every time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.parts == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.every)
	s.parts--
	return copy(p, "part"), nil
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"

// TestSilence: a backend may be silent for so long while it is its turn, and forever while the client is waited for.
func TestSilence(t *testing.T) {
	const soon, slow = silence - 1, 3 * silence
	for _, test := range []struct {
		name   string
		parts  int // of the request's body, each of them slow
		dial   time.Duration
		client time.Duration // before each Read of the response
		play   func(c net.Conn, r *bufio.Reader)
		silent bool // the exchange ends so
		took   time.Duration
	}{
		{name: "answers soon", took: 2 * soon, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, soon, ok, "done")
		}},
		{name: "does not answer", silent: true, took: silence, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, slow, ok+"done")
		}},
		{name: "hangs in its header", silent: true, took: silence, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, 0, "HTTP/1.1 200 OK\r\nContent-")
			says(c, slow, "Length: 4\r\n\r\ndone")
		}},
		{name: "hangs in its answer", silent: true, took: soon + silence, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, soon, ok+"do")
			says(c, slow, "ne")
		}},
		{name: "slow client takes", client: slow, took: 2 * slow, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, 0, ok, "do", "ne")
		}},
		{name: "slow client sends", parts: 3, took: 3*slow + soon, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			_, _ = io.ReadFull(r, make([]byte, 3*len("4\r\npart\r\n")+len("0\r\n\r\n")))
			says(c, soon, ok+"done")
		}},
		{name: "takes no more", parts: 3, silent: true, took: 2*slow + silence, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			_, _ = io.ReadFull(r, make([]byte, len("4\r\npart\r\n")))
			time.Sleep(5 * slow)
		}},
		{name: "connects slowly", dial: slow, took: slow + soon, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, soon, ok+"done")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{t: t, play: test.play, delay: test.dial}
				var body io.Reader
				if test.parts > 0 {
					body = &slowly{test.parts, slow}
				}
				start := time.Now()
				got, err := reads(t, f.transport(), body, test.client)
				assert.Equal(t, test.took, time.Since(start))
				if test.silent {
					assert.True(t, IsTimeout(err), "%v", err)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "done", got)
			})
		})
	}
}

// reads sends a request and reads the response.
func reads(t *testing.T, by http.RoundTripper, body io.Reader, pause time.Duration) (text string, _ error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://backend/", body)
	require.NoError(t, err)
	a, err := by.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = a.Body.Close() }()
	var got []byte
	for p := make([]byte, 8); ; {
		time.Sleep(pause)
		n, err := a.Body.Read(p)
		got = append(got, p[:n]...)
		if errors.Is(err, io.EOF) {
			return string(got), nil
		}
		if err != nil {
			return string(got), err
		}
	}
}

// TestSilenceIsNotRetried: http.Transport sends a request again whose kept connection fails, but not to a silent backend.
func TestSilenceIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{t: t, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, 0, ok+"done")
			takes(r)
			says(c, 3*silence, ok+"done")
		}}
		b := f.transport()
		_, err := reads(t, b, nil, 0)
		require.NoError(t, err)
		start := time.Now()
		_, err = reads(t, b, nil, 0)
		assert.True(t, IsTimeout(err), "%v", err)
		assert.Equal(t, silence, time.Since(start))
		assert.Equal(t, 1, f.dials)
	})
}

// TestUpgradeMayBeSilent: both ends of an upgraded connection may.
func TestUpgradeMayBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{t: t, play: func(c net.Conn, r *bufio.Reader) {
			takes(r)
			says(c, 0, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			says(c, 100*silence, "late")
		}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://backend/", nil)
		require.NoError(t, err)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
		a, err := f.transport().RoundTrip(r)
		require.NoError(t, err)
		got, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		assert.Equal(t, "late", string(got))
		require.NoError(t, a.Body.Close())
	})
}

// pipes is a listener of connections that are made in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSilenceOverHTTP2: a call may take as long as it does while the connection answers pings, and one without a response
// to anything is given up in time.
func TestSilenceOverHTTP2(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &pipes{make(chan net.Conn), make(chan struct{})}
			s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(100 * silence)
				_, _ = io.WriteString(w, "late")
			})}
			s.Protocols.SetUnencryptedHTTP2(true)
			var serving sync.WaitGroup
			serving.Go(func() { _ = s.Serve(l) })
			p := newFleet(func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				if deaf {
					go func() { _, _ = io.Copy(io.Discard, theirs) }()
				} else {
					l.conns <- theirs
				}
				return ours, nil
			}, silence)
			start := time.Now()
			text, err := reads(t, p.http2, nil, 0)
			if deaf {
				assert.True(t, IsTimeout(err), "%v", err)
				assert.Equal(t, silence, time.Since(start))
			} else {
				require.NoError(t, err)
				assert.Equal(t, "late", text)
			}
			p.closeIdle()
			require.NoError(t, s.Close())
			serving.Wait()
		})
	}
}
