package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	headerTimeout = 10 * time.Second // for a request's header to come
	idleTimeout   = 2 * time.Minute  // until the next request of a connection
	headerBytes   = 64 << 10
)

// What a connection of HTTP/2 may hold of bodies that nobody reads yet: the window of the connection is that of all its streams.
// Otherwise the body of a request that waits, or whose upload is throttled, would keep back the bodies of all others.
const (
	streams      = 250
	streamWindow = 64 << 10
)

// newServer returns a server of HTTP, whose requests p serves.
func (p *Proxy) newServer() *http.Server {
	s := &http.Server{
		Handler:           p,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: stallTime, PingTimeout: headerTimeout, WriteByteTimeout: stallTime,
			MaxConcurrentStreams: streams, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: streams * streamWindow,
		},
		ErrorLog:    log.New(logWriter(p.logServer), "", 0),
		ConnContext: withConn,

		DisableGeneralOptionsHandler: true, // it would respond to OPTIONS * past the limits
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return p.state.Load().cert, nil
			},
		},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// ServeHTTP serves a request under the configuration in effect when it came.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.active.Add(1)
	defer p.active.Done()
	if isEnded(r) {
		panic(http.ErrAbortHandler) // it is the rest of a body
	}
	x := newExchange(w, r)
	defer func() {
		p.metrics.answered(x)
		if p.access != nil {
			p.access.Write(x.entry(p.keys.Address(r)))
		}
	}()
	if r.Body != nil && r.Body != http.NoBody {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex() // a response may come before the body; over HTTP/2 it always may
		_ = c.SetReadDeadline(time.Now().Add(stallTime))
		if r.ProtoMajor == 1 {
			defer discard(c, r)
		}
	}
	p.state.Load().handler.ServeHTTP(x, x.request)
	x.served()
}

const discardTime = 5 * time.Millisecond // for reading the rest of a body that has arrived

// discard reads what is left of a request's body, if it has come: net/http does so under full duplex only when it is too
// late for the next request. If the end is not there the connection is closed after the response.
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

// logWriter is the output of a log.Logger: it is called with each message.
type logWriter func(message string)

func (w logWriter) Write(message []byte) (int, error) {
	w(string(bytes.TrimSpace(message)))
	return len(message), nil
}

// logServer passes on what net/http's server logs, except errors of clients.
func (p *Proxy) logServer(message string) {
	switch {
	case strings.HasPrefix(message, "http: panic "), strings.HasPrefix(message, "http2: panic "):
		p.say("%s", message)
	case strings.HasPrefix(message, "http: Accept error"):
		p.saySeldom(&p.others, everySecond, "%s", message)
	}
}
