// Package slices measures what a throttled upload over TLS costs: the writes to the TCP connection, and the bytes on the
// connection for each byte of payload.
//
//	go test ./slices -run '^$' -bench . -benchtime 1x
package slices

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// counter counts the bytes written to a connection.
type counter struct{ writes, bytes atomic.Int64 }

type countedConn struct {
	net.Conn

	c *counter
}

func (c countedConn) Write(p []byte) (int, error) {
	c.c.writes.Add(1)
	c.c.bytes.Add(int64(len(p)))
	return c.Conn.Write(p)
}

// waitReader is the usual reader over x/time/rate: it reads, and then waits for as many tokens.
type waitReader struct {
	ctx context.Context
	r   io.Reader
	l   *rate.Limiter
}

func (w waitReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p[:min(len(p), w.l.Burst())])
	if n > 0 {
		if err := w.l.WaitN(w.ctx, n); err != nil {
			return n, err
		}
	}
	return n, err
}

// seconds is how long an upload takes.
const seconds = 3

func BenchmarkUpload(b *testing.B) {
	readers := map[string]func(ctx context.Context, r io.Reader, bytes int) io.Reader{
		"sluice": func(ctx context.Context, r io.Reader, bytes int) io.Reader {
			return ioreader.NewReader(ctx, r, core.Must(core.NewTokenBucket(ioreader.PerSecond(bytes))))
		},
		"x-time-rate": func(ctx context.Context, r io.Reader, bytes int) io.Reader {
			l := rate.NewLimiter(rate.Limit(bytes), 32<<10)
			l.AllowN(time.Now(), 32<<10) // it starts full
			return waitReader{ctx, r, l}
		},
	}
	for _, protocol := range []string{"http1", "http2"} {
		for _, kib := range []int{10, 50, 200, 2000} {
			for _, impl := range []string{"sluice", "x-time-rate"} {
				b.Run("protocol="+protocol+"/KiB-per-s="+strconv.Itoa(kib)+"/impl="+impl, func(b *testing.B) {
					upload(b, protocol == "http2", kib<<10, readers[impl])
				})
			}
		}
	}
}

func upload(b *testing.B, http2 bool, bytesPerSecond int, reader func(context.Context, io.Reader, int) io.Reader) {
	b.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	defer server.Close()
	var c counter
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = http2
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return countedConn{conn, &c}, err
	}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	payload := make([]byte, seconds*bytesPerSecond)
	for b.Loop() {
		body := reader(b.Context(), bytes.NewReader(payload), bytesPerSecond)
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPut, server.URL, body)
		if err != nil {
			b.Fatal(err)
		}
		request.ContentLength = int64(len(payload))
		response, err := client.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		_ = response.Body.Close()
	}
	b.ReportMetric(float64(c.writes.Load())/float64(b.N), "TCP-writes/op")
	b.ReportMetric(float64(c.bytes.Load())/float64(b.N)/float64(len(payload)), "sent/payload")
	b.ReportMetric(float64(c.bytes.Load()+40*c.writes.Load())/float64(b.N)/float64(len(payload)), "with-TCP/payload")
}
