package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/stall"
)

const (
	headerTimeout = 10 * time.Second // for a request's header to come
	idleTimeout   = 2 * time.Minute  // until the next request of a connection
	headerBytes   = 64 << 10
)

// web is a server of HTTP.
type web struct {
	http.Server

	active active
}

func newWeb(p *proxy) *web {
	w := new(web)
	h := p.visits(prompt(p))
	w.Server = http.Server{
		Handler:           w.active.handler(h),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{SendPingTimeout: stall.Time, PingTimeout: headerTimeout, WriteByteTimeout: stall.Time},
		ErrorLog:          log.New(accidents{p}, "", 0),
		ConnContext:       withConn,

		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * beside the limits
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return p.state.Load().cert, nil
			},
		},
	}
	w.Protocols.SetHTTP1(true)
	w.Protocols.SetHTTP2(true)
	w.Protocols.SetUnencryptedHTTP2(true)
	return w
}

// Shutdown also waits for upgraded connections.
func (w *web) Shutdown(ctx context.Context) error {
	if err := w.Server.Shutdown(ctx); err != nil {
		return err
	}
	w.active.wait(ctx)
	return ctx.Err()
}

// secure is a server of HTTPS.
type secure struct{ *web }

func (s secure) Serve(l net.Listener) error { return s.ServeTLS(l, "", "") }

// prompt allows an answer before the request's body has come, and does not wait for ever for a body that nobody reads.
func prompt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if endedConn(r) {
			panic(http.ErrAbortHandler) // it is the rest of a body
		}
		if body := r.Body; body != nil && body != http.NoBody {
			c := http.NewResponseController(w)
			_ = c.EnableFullDuplex() // HTTP/2 always does
			_ = c.SetReadDeadline(time.Now().Add(stall.Time))
			if r.ProtoMajor == 1 {
				defer func() {
					r.Body = body // net/http looks at it
					discard(c, r)
				}()
			}
		}
		next.ServeHTTP(w, r)
	})
}

const discardTime = 5 * time.Millisecond // for what has come of a body that nobody reads

// discard reads what is left of a request's body, if it has come: net/http does so under full duplex only when it is too
// late for the next request. If the end is not there the connection is closed after the answer.
func discard(c *http.ResponseController, r *http.Request) {
	if c.SetReadDeadline(time.Now().Add(discardTime)) != nil {
		return // the connection was taken over, and has ended
	}
	if r.Body.Close() != nil { // it reads 256 KiB at most
		endConn(r)
	}
	_ = c.SetReadDeadline(time.Time{})
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// endConn has no further request read from a connection.
func endConn(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*stall.Conn); ok {
		c.End()
	}
}

func endedConn(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*stall.Conn)
	return ok && c.Ended()
}

// accidents takes the log of net/http. It passes on what is not the fault of a client.
type accidents struct{ p *proxy }

func (a accidents) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	switch {
	case strings.HasPrefix(text, "http: panic "), strings.HasPrefix(text, "http2: panic "):
		a.p.say("%s", text)
	case strings.HasPrefix(text, "http: Accept error"):
		a.p.sayOften("%s", text)
	}
	return len(line), nil
}

// active counts the requests under way, with upgraded connections, for which http.Server does not wait.
type active struct{ sync.WaitGroup }

func (a *active) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Add(1)
		defer a.Done()
		next.ServeHTTP(w, r)
	})
}

// wait waits until there are none, or until ctx is done.
func (a *active) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
