package server

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBackendHangs: it is 504, and the lease goes back, whether the backend does not respond, does not take the body, or
// stops in the middle.
func TestBackendHangs(t *testing.T) {
	hung := make(chan struct{})
	b := backendOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		<-hung
	})
	t.Cleanup(func() { close(hung) }) // before the backend is closed
	p := serves(t, nil, "to: "+b.URL+"\nglobal: {limit: concurrency 1}\nbackend-timeout: 50ms\n")
	status, _ := p.asks("GET", "/")
	assert.Equal(t, http.StatusGatewayTimeout, status)
	a, err := http.Post("http://"+p.address, "text/plain", io.LimitReader(zeros{}, 64<<20))
	require.NoError(t, err)
	_ = a.Body.Close()
	assert.Equal(t, http.StatusGatewayTimeout, a.StatusCode)
	a, err = http.Get("http://" + p.address + "/half")
	require.NoError(t, err)
	body, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	assert.Equal(t, "half", string(body))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	p.eventually(1)
}

// zeros is a text without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
