package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
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

	active active
}

func newWeb(p *proxy) *web {
	w := new(web)
	h := prompt(p)
	if p.access != nil {
		h = p.access.handler(p.keys.address, h)
	}
	w.Server = http.Server{
		Handler:           w.active.handler(h),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{SendPingTimeout: stall, PingTimeout: headerTimeout, WriteByteTimeout: stall},
		ErrorLog:          log.New(io.Discard, "", 0), // about the faults of clients
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
		if r.Body != nil && r.Body != http.NoBody {
			c := http.NewResponseController(w)
			_ = c.EnableFullDuplex() // HTTP/2 always does
			_ = c.SetReadDeadline(time.Now().Add(stall))
		}
		next.ServeHTTP(w, r)
	})
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
