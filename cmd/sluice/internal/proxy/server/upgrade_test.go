package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// switcher is a backend that switches to any protocol that a request names, as servers that speak h2c do, and echoes what
// comes after that. It reads its requests as text, without net/http.
type switcher struct {
	address string

	mu    sync.Mutex
	heads []string // of its requests
}

func newSwitcher(t *testing.T) *switcher {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &switcher{address: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return s
}

func (s *switcher) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		var head strings.Builder
		to := ""
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "upgrade") {
				to = strings.TrimSpace(value)
			}
			if line == "\r\n" {
				break
			}
		}
		s.mu.Lock()
		s.heads = append(s.heads, head.String())
		s.mu.Unlock()
		if to != "" {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nUpgrade: "+to+
				"\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-End: 1\r\n\r\n")
			_, _ = io.Copy(c, in)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

// last returns the header of the latest request, in lower case.
func (s *switcher) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ToLower(s.heads[len(s.heads)-1])
}

// TestOnlyWebSocketIsTunneled: no other protocol is: over it a client could send requests that no limit sees.
func TestOnlyWebSocketIsTunneled(t *testing.T) {
	b := newSwitcher(t)
	p := serves(t, "to: http://"+b.address+`
policies:
  some: {limit: fixed 1000/1h, upload: 1MiB/s}
routes: {/limited: some, /exempt: none, /: []}
`)
	for _, path := range []string{"/limited", "/exempt", "/"} {
		for _, fields := range []string{
			"Connection: Upgrade\r\nUpgrade: h2c",
			"Connection: upgrade\r\nUpgrade: H2C",
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
			"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
			"Connection: Upgrade\r\nUpgrade: h2c, websocket",
			"Connection: Upgrade\r\nUpgrade: websocket, h2c",
			"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c",
			"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket",
			"Connection: Upgrade\r\nUpgrade: websocket/13",
			"Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/1.1",
			"Connection: Upgrade\r\nUpgrade: HTTP/2.0",
			"Connection: Upgrade\r\nUpgrade: echo",
			"Connection: close, Upgrade\r\nUpgrade: h\x80",
			"Connection: Upgrade\r\nUpgrade: ",
			"Upgrade: h2c",
			"Upgrade: websocket",
			"Connection: keep-alive\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
		} {
			c := dial(t, p.address)
			_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: h\r\n"+fields+"\r\n\r\n")
			require.NoError(t, err)
			a, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			_ = a.Body.Close()
			_ = c.Close()
			assert.Equal(t, http.StatusOK, a.StatusCode, "%s %q", path, fields)
			head := b.last()
			assert.NotContains(t, head, "upgrade", "%s %q", path, fields)
			assert.NotContains(t, head, "settings", "%s %q", path, fields)
		}
	}
}

// TestWebSocketIsTunneled: also what the client sends together with its request arrives, in order.
func TestWebSocketIsTunneled(t *testing.T) {
	b := newSwitcher(t)
	p := serves(t, "to: http://"+b.address+"\nglobal: {limit: concurrency 1, upload: 1MiB/s}\n")
	for _, token := range []string{"websocket", "WebSocket", "WEBSOCKET"} {
		c := dial(t, p.address)
		_, err := io.WriteString(c, "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: "+token+
			"\r\nHTTP2-Settings: AAMAAABk\r\n\r\nearly ")
		require.NoError(t, err)
		in := bufio.NewReader(c)
		a, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		_ = a.Body.Close()
		require.Equal(t, http.StatusSwitchingProtocols, a.StatusCode, token)
		assert.NotContains(t, b.last(), "settings")
		for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate"} {
			assert.NotContains(t, a.Header, name)
		}
		assert.Equal(t, "1", a.Header.Get("X-End"))
		_, err = io.WriteString(c, "and late")
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		got, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Equal(t, "early and late", string(got))
		p.eventually(1)
	}
}
