package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStalledWrites: who takes its response slowly is served, and who takes nothing of it is cut off.
func TestStalledWrites(t *testing.T) {
	for _, pause := range []time.Duration{0, 10 * stallTime} { // between the write that the client reads and the one that it does not
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _ = theirs.Close() }()
			c := &clientConn{Conn: ours}
			go func() { _, _ = io.ReadFull(theirs, make([]byte, 2)) }()
			_, err := c.Write([]byte("ok"))
			require.NoError(t, err)
			time.Sleep(pause)
			start := time.Now()
			_, err = c.Write([]byte("more"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, stallTime, time.Since(start))
		})
	}
}

// TestStalledBody: a client that stops amid a body gets 408, and one whose body was complete waits for its response as long as that takes. A
// transport that still reads after the response reads nothing of the next request.
func TestStalledBody(t *testing.T) {
	for _, test := range []struct {
		sent   string
		status int
		after  time.Duration
	}{{"half", http.StatusRequestTimeout, stallTime}, {"complete", http.StatusOK, 10 * stallTime}} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			end := make(chan struct{})
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				x := newExchange(w, r)
				b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), request: x.request}
				if _, err := io.ReadAll(b); err != nil {
					w.WriteHeader(statusOf(err))
				} else {
					time.Sleep(10 * stallTime)
					assert.NoError(t, r.Context().Err())
				}
				b.end()
				_, err := b.Read(make([]byte, 1))
				assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
			})}
			l := &single{c: ours, end: end}
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			start := time.Now()
			_, err := io.WriteString(theirs, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"+test.sent)
			require.NoError(t, err)
			a, err := http.ReadResponse(bufio.NewReader(theirs), nil)
			require.NoError(t, err)
			assert.Equal(t, test.status, a.StatusCode)
			assert.Equal(t, test.after, time.Since(start))
			require.NoError(t, theirs.Close())
			require.NoError(t, s.Close())
			require.ErrorIs(t, <-served, http.ErrServerClosed)
		})
	}
}

// single is a listener of one connection.
type single struct {
	c   net.Conn
	end chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	if c := l.c; c != nil {
		l.c = nil
		return c, nil
	}
	<-l.end
	return nil, net.ErrClosed
}

func (l *single) Close() error {
	close(l.end)
	return nil
}

func (l *single) Addr() net.Addr { return &net.TCPAddr{} }
