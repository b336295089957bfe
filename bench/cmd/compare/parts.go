package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// itself returns the command of a part of a measurement that is a process of its own.
func (b bench) itself(role string, arguments ...string) *exec.Cmd {
	return exec.CommandContext(b.ctx, b.self, slices.Concat([]string{"-as", role}, arguments)...)
}

// actAs is what such a process does.
func actAs(ctx context.Context, role string, arguments []string) error {
	switch {
	case role == "backend" && len(arguments) == 1:
		return serveAnswers(ctx, arguments[0])
	case role == "alone" && len(arguments) == 2:
		return serveAlone(ctx, arguments[0], arguments[1])
	case role == "load" && len(arguments) == 2:
		requests, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		return loads(ctx, arguments[0], requests)
	}
	return fmt.Errorf("-as %s with %q", role, arguments)
}

// answerBytes is how long the backend's answer is.
const answerBytes = 1024

// serveAnswers is the process of the backend. It looks for the end of a request and nothing else: what the backend costs
// is the same for all proxies and would make them look alike.
func serveAnswers(ctx context.Context, address string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		answerBytes, strings.Repeat("sluice! ", answerBytes/8))
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go answers(c, answer)
	}
}

// answers serves a connection whose requests have no bodies.
func answers(c net.Conn, answer []byte) {
	defer c.Close() //nolint:errcheck // the other end is gone
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimSpace(line)) > 0 {
			continue
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// serveAlone is the process of a ReverseProxy with the transport of sluice proxy, and nothing else.
func serveAlone(ctx context.Context, address, backend string) error {
	to := &url.URL{Scheme: "http", Host: backend}
	s := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		},
		Transport:  &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 512},
		BufferPool: &buffers{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
	}}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return b.pool.Get().(*[32 << 10]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[32 << 10]byte)(p)) }
