package server

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// h2c returns a client, or starts a server, of HTTP/2 without TLS.
func h2cClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func h2cBackend(t *testing.T, f http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "h2c:", 1)
}

// calls makes a call, and returns the status of gRPC, wherever it stands, with the response.
func (r *running) calls(c *http.Client, path string) (status, body string, a *http.Response) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.address+path, strings.NewReader("message"))
	require.NoError(r.t, err)
	q.Header.Set("Content-Type", "application/grpc+proto")
	q.Header.Set("Te", "trailers")
	a, err = c.Do(q)
	require.NoError(r.t, err)
	b, err := io.ReadAll(a.Body)
	require.NoError(r.t, err)
	require.NoError(r.t, a.Body.Close())
	return a.Header.Get("Grpc-Status") + a.Trailer.Get("Grpc-Status"), string(b), a
}

// TestGRPC: calls pass to an h2c backend and back with their trailers, and what the proxy itself responds is a status of
// gRPC.
func TestGRPC(t *testing.T) {
	to := h2cBackend(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(append(b, " "+r.Proto+" "+r.Header.Get("Te")...))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	p := serves(t, nil, "to: "+to+`
backend-timeout: 10s
max-body: 10B
policies:
  rate:  {limit: fixed 1/1h}
  small: {limit: concurrency 1, status: 503}
routes: {/: rate, /small: small, /free/: []}
`)
	c := h2cClient(t)
	status, body, _ := p.calls(c, "/")
	assert.Equal(t, "0", status)
	assert.Equal(t, "message HTTP/2.0 trailers", body)
	status, body, a := p.calls(c, "/")
	assert.Equal(t, "8", status)
	assert.Empty(t, body)
	assert.Equal(t, http.StatusOK, a.StatusCode)
	assert.Equal(t, "application/grpc", a.Header.Get("Content-Type"))
	assert.Equal(t, "the limit is reached", a.Header.Get("Grpc-Message"))
	assert.Regexp(t, "^3[0-9]{6}$", a.Header.Get("Grpc-Retry-Pushback-Ms"))
	quota, retry := details(t, a, 8, "the limit is reached")
	assert.Equal(t, "rate", quota.GetViolations()[0].GetSubject())
	after := retry.GetRetryDelay().AsDuration()
	assert.Equal(t, a.Header.Get("Grpc-Retry-Pushback-Ms"), strconv.FormatInt(int64((after+time.Millisecond-1)/time.Millisecond), 10))
	a, _ = p.gets("POST", "/", "Content-Type", "application/grpc")
	assert.Equal(t, http.StatusTooManyRequests, a.StatusCode, "over HTTP/1.1 it is no call")
	lease := p.limiter(1).TryAcquire(1)
	status, _, a = p.calls(c, "/small")
	assert.Equal(t, "14", status)
	quota, retry = details(t, a, 14, "the limit is reached")
	assert.Equal(t, "small", quota.GetViolations()[0].GetSubject())
	assert.Nil(t, retry, "the time of the next release is unknown")
	assert.NotContains(t, a.Header, "Grpc-Retry-Pushback-Ms")
	lease.Release()
	p.becomes("to: h2c://127.0.0.1:1\nmax-body: 3B\n")
	status, _, _ = p.calls(c, "/free/")
	assert.Equal(t, "8", status, "the message is too large")
	p.becomes("to: h2c://127.0.0.1:1\n")
	status, _, _ = p.calls(c, "/free/")
	assert.Equal(t, "14", status)
}

// details returns the details of a response's status, as a client of gRPC reads them: the limit, and the next try or nil.
func details(t *testing.T, a *http.Response, code int32, message string) (quota *errdetails.QuotaFailure, retry *errdetails.RetryInfo) {
	t.Helper()
	text := a.Header.Get("Grpc-Status-Details-Bin")
	b, err := base64.RawStdEncoding.DecodeString(text)
	require.NoError(t, err, text)
	var s status.Status
	require.NoError(t, proto.Unmarshal(b, &s))
	assert.Equal(t, code, s.GetCode())
	assert.Equal(t, message, s.GetMessage())
	for _, d := range s.GetDetails() {
		one, err := d.UnmarshalNew()
		require.NoError(t, err)
		switch one := one.(type) {
		case *errdetails.QuotaFailure:
			quota = one
		case *errdetails.RetryInfo:
			retry = one
		default:
			assert.Fail(t, "unknown detail", one)
		}
	}
	return quota, retry
}
