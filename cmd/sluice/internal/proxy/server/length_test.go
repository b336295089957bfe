package server

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// closes sends a request and reports whether the connection is closed after the answer.
func closes(t *testing.T, c net.Conn, in *bufio.Reader, request string) bool {
	t.Helper()
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	a, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	_, err = io.ReadAll(a.Body)
	require.NoError(t, err)
	if !a.Close {
		return false
	}
	_, err = in.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	return true
}

const chunked = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"

// TestContentLengthBesideTransferEncoding: the connection is closed after the answer, as RFC 9112 has it, however the name is
// written, and wherever the two requests of a connection come apart.
func TestContentLengthBesideTransferEncoding(t *testing.T) {
	address, _, _ := webOf(t, hello)
	const post = "POST / HTTP/1.1\r\nHost: h\r\n"
	for _, both := range []string{
		post + "Content-Length: 3\r\n" + chunked,
		post + "cONTENT-lENGTH: 3\r\n" + chunked,
		post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
	} {
		c := dial(t, address)
		in := bufio.NewReader(c)
		assert.False(t, closes(t, c, in, post+chunked))
		assert.True(t, closes(t, c, in, both), both)
	}
}

// TestNoteLength: the name is found wherever what is read is cut.
func TestNoteLength(t *testing.T) {
	const text = "a-b content-lengt\r\ncontent-Content-Length: 3\r\n\r\n"
	end := len(text) - len(": 3\r\n\r\n")
	for first := range len(text) {
		for second := first; second < len(text); second++ {
			var c clientConn
			c.noteLength([]byte(text[:first]))
			assert.Equal(t, first >= end, c.length.Load())
			c.noteLength([]byte(text[first:second]))
			assert.Equal(t, second >= end, c.length.Load())
			c.noteLength([]byte(text[second:]))
			assert.True(t, c.length.Load(), "%q, %q", text[:first], text[first:second])
		}
	}
	var c clientConn
	for i := range len(text) { // as net/http reads the first byte of the next request
		c.noteLength([]byte(text[i : i+1]))
	}
	assert.True(t, c.length.Load())
}

// TestTransferEncodingOverTLS: nothing of ours sees what is read, so each of them ends its connection.
func TestTransferEncodingOverTLS(t *testing.T) {
	b := backendOf(t, hello)
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	p := serves(t, false, "to: "+b.URL+"\ntls: {cert: "+cert+", key: "+key+"}\n")
	c, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test's own server
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	in := bufio.NewReader(c)
	assert.False(t, closes(t, c, in, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"))
	assert.True(t, closes(t, c, in, "POST / HTTP/1.1\r\nHost: h\r\n"+chunked))
}
