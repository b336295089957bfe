package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTrailers: they pass both ways.
func TestTrailers(t *testing.T) {
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Back")
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %q", body, r.Trailer["X-There"])
		w.Header().Set("X-Back", "back")
	})
	p := serves(t, false, "to: "+b.URL+"\n")
	c := dial(t, p.address)
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nTrailer: X-There\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"4\r\nbody\r\n0\r\nX-There: there\r\n\r\n")
	require.NoError(t, err)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	_ = a.Body.Close()
	assert.Equal(t, `body ["there"]`, string(body))
	assert.Equal(t, "back", a.Trailer.Get("X-Back"))
}

// TestOddAnswers: what a backend does not say of its answer is not guessed, and what is no status is 502.
func TestOddAnswers(t *testing.T) {
	var status string
	b := backendOf(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 13\r\n\r\n<html></html>")
		_ = c.Close()
	})
	p := serves(t, false, "to: "+b.URL+"\nglobal: {limit: concurrency 1}\n")
	for _, test := range []struct {
		status, kind string
		want         int
	}{
		{"200 OK", "", 200},
		{"999 Odd", "", 999},
		{"099 Odd", "text/plain; charset=utf-8", http.StatusBadGateway},
	} {
		status = test.status
		a, err := http.Get("http://" + p.address)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, a.Body)
		require.NoError(t, err)
		_ = a.Body.Close()
		assert.Equal(t, test.want, a.StatusCode)
		assert.Equal(t, test.kind, strings.Join(a.Header["Content-Type"], " "))
	}
}
