package server

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
)

const (
	headerTimeout = 10 * time.Second // for a request's header to come
	idleTimeout   = 2 * time.Minute  // until the next request of a connection
	headerBytes   = 64 << 10
)

// web is a server of HTTP.
type web struct {
	http.Server

	p      *Proxy
	active active
}

func newWeb(p *Proxy) *web {
	w := &web{p: p}
	w.Server = http.Server{
		Handler:           w,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{SendPingTimeout: stallTime, PingTimeout: headerTimeout, WriteByteTimeout: stallTime},
		ErrorLog:          log.New(serverErrorLog{p}, "", 0),
		ConnContext:       withConn,

		DisableGeneralOptionsHandler: true, // it would answer OPTIONS * past the limits
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

// serve serves the connections of l that are admitted.
func (w *web) serve(l net.Listener, tls bool) error {
	l = listener{l, w.p}
	if tls {
		return w.ServeTLS(l, "", "")
	}
	return w.Serve(l)
}

// ServeHTTP serves a request under the configuration in force when it came.
func (w *web) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w.active.Add(1)
	defer w.active.Done()
	if isEnded(r) {
		panic(http.ErrAbortHandler) // it is the rest of a body
	}
	x := newExchange(to, r)
	defer func() {
		w.p.metrics.answered(x)
		if w.p.access != nil {
			w.p.access.write(w.p.keys.Address(r), x)
		}
	}()
	if r.Body != nil && r.Body != http.NoBody {
		c := http.NewResponseController(to)
		_ = c.EnableFullDuplex() // an answer may come before the body; over HTTP/2 it always may
		_ = c.SetReadDeadline(time.Now().Add(stallTime))
		if r.ProtoMajor == 1 {
			defer discard(c, r)
		}
	}
	w.p.state.Load().handler.ServeHTTP(x, x.request)
	x.served()
}

// Shutdown also waits for upgraded connections.
func (w *web) Shutdown(ctx context.Context) error {
	if err := w.Server.Shutdown(ctx); err != nil {
		return err
	}
	w.active.wait(ctx)
	return ctx.Err()
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
	if c, ok := r.Context().Value(connKey{}).(*clientConn); ok {
		c.ended.Store(true)
	}
}

func isEnded(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*clientConn)
	return ok && c.ended.Load()
}

// serverErrorLog takes the log of net/http. It passes on what is not the fault of a client.
type serverErrorLog struct{ p *Proxy }

func (a serverErrorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	switch {
	case strings.HasPrefix(text, "http: panic "), strings.HasPrefix(text, "http2: panic "):
		a.p.say("%s", text)
	case strings.HasPrefix(text, "http: Accept error"):
		a.p.sayOften("%s", text)
	}
	return len(line), nil
}

// standardLog takes what net/http's client logs, such as a response of a backend that was not asked for: once a second at most.
type standardLog struct{ p *Proxy }

func (l standardLog) Write(line []byte) (int, error) {
	l.p.sayOften("%s", bytes.TrimSpace(line))
	return len(line), nil
}

// active counts the requests under way, with upgraded connections, for which http.Server does not wait.
type active struct{ sync.WaitGroup }

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
