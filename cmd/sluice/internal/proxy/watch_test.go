package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
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

func post(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x", body)
	require.NoError(t, err)
	return r
}

// TestSilent: only what the backend does not do counts, whatever the client and the whole take.
func TestSilent(t *testing.T) {
	const limit = time.Second
	hangs := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	reads := func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return nil, err
		}
		return hangs(r)
	}
	for name, test := range map[string]struct {
		limit time.Duration
		body  func(t *testing.T) io.Reader
		send  func(*http.Request) (*http.Response, error)
		err   error
		at    time.Duration
	}{
		"no answer":                      {limit, nil, hangs, errSilent, limit},
		"the body is not taken":          {limit, func(*testing.T) io.Reader { return strings.NewReader("x") }, hangs, errSilent, limit},
		"the body takes longer":          {limit, func(t *testing.T) io.Reader { return slowly(t, 4, 5*limit/2) }, reads, errSilent, 11 * limit},
		"a connection that was not made": {limit, nil, func(r *http.Request) (*http.Response, error) { _, err := hangs(r); return nil, &dialError{err} }, context.Canceled, limit},
		"another error":                  {limit, nil, func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, io.ErrUnexpectedEOF, 0},
		"for ever": {0, nil, func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Hour)
			return nil, io.ErrUnexpectedEOF
		}, io.ErrUnexpectedEOF, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var body io.Reader
				if test.body != nil {
					body = test.body(t)
				}
				begun := time.Now()
				a, err := silent(post(t, body), test.limit, test.send)
				assert.Nil(t, a)
				require.ErrorIs(t, err, test.err)
				assert.Equal(t, test.at, time.Since(begun))
			})
		})
	}
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
				a, err := silent(post(t, nil), limit, func(r *http.Request) (*http.Response, error) {
					body := slowly(t, test.parts, test.every)
					context.AfterFunc(r.Context(), func() { _ = body.Close() })
					return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
				})
				require.NoError(t, err)
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

// TestSilentUpgrade: what is upgraded may be silent.
func TestSilentUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		body := struct{ io.ReadWriteCloser }{}
		a, err := silent(post(t, nil), time.Second, func(r *http.Request) (*http.Response, error) {
			ctx = r.Context() //nolint:fatcontext // it is looked at, and not handed on
			return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: body}, nil
		})
		require.NoError(t, err)
		assert.Equal(t, body, a.Body)
		time.Sleep(time.Hour)
		assert.NoError(t, ctx.Err())
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
