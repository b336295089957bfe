package proxy

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowly returns a body that comes in parts.
func slowly(t *testing.T, parts int, every time.Duration) io.ReadCloser {
	t.Helper()
	r, w := io.Pipe()
	go func() {
		for range parts {
			time.Sleep(every)
			if _, err := io.WriteString(w, "part"); err != nil {
				return
			}
		}
		_ = w.Close()
	}()
	return r
}

// TestSilentAnswer: an answer may take as long as it does, if it comes, and if the client takes its time.
func TestSilentAnswer(t *testing.T) {
	const limit = time.Second
	for name, test := range map[string]struct {
		parts  int
		every  time.Duration
		client time.Duration // between two reads
		err    error
	}{
		"steady":      {20, limit / 2, 0, nil},
		"slow client": {20, 0, 3 * limit, nil},
		"hangs":       {20, limit + 1, 0, errSilent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &http.Response{StatusCode: http.StatusOK, Body: slowly(t, test.parts, test.every)}
				watched(a, limit)
				for got, p := 0, make([]byte, 4); ; time.Sleep(test.client) {
					n, err := a.Body.Read(p)
					got += n
					if err == nil {
						continue
					}
					if test.err == nil {
						assert.Equal(t, io.EOF, err)
						assert.Equal(t, 4*test.parts, got)
					} else {
						assert.ErrorIs(t, err, test.err)
					}
					break
				}
				require.NoError(t, a.Body.Close())
				time.Sleep(test.every) // the source sees it too
				synctest.Wait()
			})
		})
	}
}

// TestBackendHangs: it is 504, and the lease goes back, whether the backend does not answer, does not take the body, or
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
	p := serves(t, false, "to: "+b.URL+"\nglobal: {limit: concurrency 1}\nbackend-timeout: 50ms\n")
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

// TestMayBeSilent: what is upgraded may be silent, and nothing is watched that cannot be, or need not be.
func TestMayBeSilent(t *testing.T) {
	for _, test := range []struct {
		status int
		body   io.ReadCloser
		limit  time.Duration
	}{
		{http.StatusSwitchingProtocols, struct{ io.ReadWriteCloser }{}, time.Second},
		{http.StatusNoContent, http.NoBody, time.Second},
		{http.StatusOK, struct{ io.ReadCloser }{}, 0},
	} {
		a := &http.Response{StatusCode: test.status, Body: test.body}
		watched(a, test.limit)
		assert.Equal(t, test.body, a.Body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
