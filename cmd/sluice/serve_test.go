//go:build unix

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
)

// serving is a sluice serve that runs.
type serving struct {
	*started

	address, admin string
	conn           *grpc.ClientConn
	client         ratelimit.RateLimitServiceClient
}

const shopRules = `domain: shop
descriptors:
- key: user
  rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 3}
- key: path
  value: /admin/*
  detailed_metric: true
  limit: 1/day
`

func startServing(t *testing.T, args ...string) *serving {
	t.Helper()
	s := &serving{started: start(t, programs(t), "sluice", append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)}
	s.address = s.addressAfter("sluice serve: listening on ")
	s.admin = s.addressAfter("sluice serve: admin on ")
	var err error
	s.conn, err = grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close() })
	s.client = ratelimit.NewRateLimitServiceClient(s.conn)
	return s
}

func (s *serving) ask(key, value string) ratelimit.RateLimitResponse_Code {
	s.t.Helper()
	return s.answer(key, value).GetOverallCode()
}

func (s *serving) answer(key, value string) *ratelimit.RateLimitResponse {
	s.t.Helper()
	a, err := s.client.ShouldRateLimit(s.t.Context(), call("shop", key, value))
	require.NoError(s.t, err)
	return a
}

func call(domain, key, value string) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{
		Domain:      domain,
		Descriptors: []*envoy.RateLimitDescriptor{{Entries: []*envoy.RateLimitDescriptor_Entry{{Key: key, Value: value}}}},
	}
}

// get returns the status and body of the admin server's answer.
func (s *serving) get(method, path string) (int, string) {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.admin+path, nil)
	require.NoError(s.t, err)
	a, err := http.DefaultClient.Do(q)
	require.NoError(s.t, err)
	return a.StatusCode, bodyOf(s.t, a)
}

const (
	passes = ratelimit.RateLimitResponse_OK
	over   = ratelimit.RateLimitResponse_OVER_LIMIT
)

// TestServe: calls are answered; the rules are watched, changed and reset; the server tells how it is.
func TestServe(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "shop.yaml", shopRules)
	s := startServing(t, "--config", file, "--headers", "--grace", "5s")
	for i := range 5 {
		want := passes
		if i >= 3 {
			want = over
		}
		a := s.answer("user", "ann")
		assert.Equal(t, want, a.GetOverallCode())
		assert.Len(t, a.GetResponseHeadersToAdd(), 3)
	}
	assert.Equal(t, passes, s.ask("user", "bob"))
	assert.Equal(t, passes, s.ask("path", "/admin/x"))

	// The admin server.
	status, body := s.get("GET", "/healthz")
	assert.Equal(t, "ok\n", body)
	assert.Equal(t, 200, status)
	_, body = s.get("GET", "/metrics")
	for _, want := range []string{
		`sluice_rls_hits_total{domain="shop",result="granted",rule="user"} 4`,
		`sluice_rls_hits_total{domain="shop",result="rejected",rule="user"} 2`,
		`sluice_rls_hits_total{domain="shop",result="granted",rule="path_/admin/x"} 1`,
		`sluice_rls_limiters{domain="shop",rule="user"} 2`,
		`sluice_rls_responses_total{result="ok"} 5`,
		`sluice_rls_responses_total{result="over_limit"} 2`,
		`sluice_rls_response_seconds_count 7`,
		`sluice_rls_undecided_total{domain="shop",rule="user"} 0`,
		`sluice_rls_reloads_total{result="ok"} 0`,
	} {
		assert.Contains(t, body, want+"\n")
	}
	assert.NotContains(t, body, "ann")
	_, body = s.get("GET", "/limits")
	assert.JSONEq(t, `{
		"shop/user": {"limit": "3/9 weeks", "granted": 4, "rejected": 2, "limiters": 2},
		"shop/path_/admin/*": {"limit": "1/day", "granted": 1, "rejected": 0, "limiters": 1},
		"shop/override": {"granted": 0, "rejected": 0, "limiters": 0}
	}`, body)
	status, _ = s.get("POST", "/limits/shop/user/reset?kye=ann")
	assert.Equal(t, 400, status)
	status, _ = s.get("POST", "/limits/shop/none/reset")
	assert.Equal(t, 404, status)
	_, body = s.get("POST", "/limits/shop/user/reset?key=ann")
	assert.JSONEq(t, `{"reset": 1}`, body)
	assert.Equal(t, "sluice serve: rule shop/user: reset 1 limiter (one key)", s.line(s.errs))
	assert.Equal(t, passes, s.ask("user", "ann"))
	_, body = s.get("POST", "/limits/shop/path_/admin/*/reset")
	assert.JSONEq(t, `{"reset": 1}`, body)
	s.line(s.errs)

	// A change keeps what is counted; a bad one changes nothing.
	replace(t, file, strings.Replace(shopRules, "requests_per_unit: 3", "requests_per_unit: 4", 1))
	assert.Contains(t, s.line(s.errs), "sluice serve: reloaded ")
	assert.Equal(t, []ratelimit.RateLimitResponse_Code{passes, passes, passes, over},
		[]ratelimit.RateLimitResponse_Code{s.ask("user", "ann"), s.ask("user", "ann"), s.ask("user", "ann"), s.ask("user", "ann")})
	replace(t, file, "domain: shop\ndescriptors:\n- {kee: x}\n")
	assert.Contains(t, s.line(s.errs), "shop.yaml:3:4: config error, unknown key 'kee', want one of ")
	assert.Contains(t, s.line(s.errs), "shop.yaml:3:3: descriptor has empty key")
	assert.Equal(t, "sluice serve: reload failed; keeping the previous configuration", s.line(s.errs))
	assert.Equal(t, over, s.ask("user", "ann"))
	_, body = s.get("GET", "/metrics")
	assert.Contains(t, body, "sluice_rls_reloads_total{result=\"bad\"} 1\n")
	require.NoError(t, os.WriteFile(file, []byte(shopRules), 0o600))
	assert.Contains(t, s.line(s.errs), "sluice serve: reloaded ")
	s.signal(syscall.SIGHUP)
	assert.Contains(t, s.line(s.errs), "sluice serve: reloaded ")
	assert.Equal(t, over, s.ask("user", "ann"))

	// Health and reflection.
	health := healthpb.NewHealthClient(s.conn)
	for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
		a, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		assert.Equal(t, healthpb.HealthCheckResponse_SERVING, a.GetStatus(), name)
	}
	services, err := reflectionpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, services.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	listed, err := services.Recv()
	require.NoError(t, err)
	assert.Contains(t, listed.String(), "envoy.service.ratelimit.v3.RateLimitService")
	require.NoError(t, services.CloseSend())
	watching, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	first, err := watching.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_SERVING, first.GetStatus())

	// Shutdown does not wait for idle connections, or for one without a handshake.
	silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.address)
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	s.signal(syscall.SIGTERM)
	last, err := watching.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, last.GetStatus())
	assert.Equal(t, "sluice serve: shutting down; waiting up to 5s for in-flight calls", s.line(s.errs))
	code, _, errs := s.ends()
	assert.Equal(t, 0, code)
	assert.Equal(t, "sluice serve: all in-flight calls were answered\n", errs, "serve does not wait for idle clients")
}

// A rule whose name another one has, here that for the limits that requests bring, is reported together with it.
func TestServeOneName(t *testing.T) {
	t.Parallel()
	file := fileOf(t, "shop.yaml", "domain: shop\ndescriptors:\n- {key: override, limit: 2/day}\n- {key: plan, value: free, limit: 5/day}\n")
	s := startServing(t, "--config", file, "--grace", "1ms")
	for _, want := range []ratelimit.RateLimitResponse_Code{passes, passes, over} {
		assert.Equal(t, want, s.ask("override", "x"))
	}
	_, body := s.get("GET", "/limits")
	assert.JSONEq(t, `{
		"shop/override": {"limit": "2/day", "granted": 2, "rejected": 1, "limiters": 1},
		"shop/plan_free": {"limit": "5/day", "granted": 0, "rejected": 0, "limiters": 0}
	}`, body)
	_, body = s.get("POST", "/limits/shop/override/reset")
	assert.JSONEq(t, `{"reset": 1}`, body)
	assert.Equal(t, passes, s.ask("override", "x"))

	// A page in a browser cannot ask.
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.admin+"/limits", nil)
	require.NoError(t, err)
	q.Host = "page.example"
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	assert.Equal(t, http.StatusForbidden, a.StatusCode)

	// A stream that stays open is closed after the grace period.
	watching, err := healthpb.NewHealthClient(s.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watching.Recv()
	require.NoError(t, err)
	s.signal(syscall.SIGTERM)
	code, _, errs := s.ends()
	assert.Equal(t, 0, code)
	assert.Contains(t, errs, "grace period of 1ms expired; cutting off")
}

// TestServeDirectory: a directory that is replaced by a link to another one, as Kubernetes does it, under load.
func TestServeDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, requests := range map[string]string{"..1": "1000000", "..2": "2000000"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		text := "domain: shop\ndescriptors:\n- {key: user, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: " + requests + "}}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "shop.yaml"), []byte(text), 0o600))
	}
	require.NoError(t, os.Symlink("..1", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/shop.yaml", filepath.Join(dir, "shop.yaml")))
	s := startServing(t, "--config", dir)
	var asked atomic.Int64
	var enough atomic.Bool
	defer enough.Store(true)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !enough.Load() {
				a, err := s.client.ShouldRateLimit(t.Context(), call("shop", "user", "ann"))
				if !assert.NoError(t, err) || !assert.NotNil(t, a.GetStatuses()[0].GetCurrentLimit()) {
					return
				}
				asked.Add(1)
			}
		})
	}
	require.NoError(t, os.Symlink("..2", filepath.Join(dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	assert.Contains(t, s.line(s.errs), "sluice serve: reloaded ")
	enough.Store(true)
	all.Wait()
	a := s.answer("user", "ann")
	assert.EqualValues(t, 2_000_000, a.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())
	assert.EqualValues(t, 2_000_000-asked.Load()-1, a.GetStatuses()[0].GetLimitRemaining(), "nothing that was counted is lost")
}

// TestServeRedis: two servers share the limits; while Redis is stopped, fail-open decides.
func TestServeRedis(t *testing.T) {
	t.Parallel()
	url, redis := redisServer(t)
	file := fileOf(t, "shop.yaml", shopRules+"- {key: closed, rate_limit: {unit: week, unit_multiplier: 9, requests_per_unit: 100}}\n")
	closed := fileOf(t, "closed.yaml", "domain: closed\nfail-open: false\ndescriptors:\n- {key: k, limit: 5/day}\n")
	servers := []*serving{
		startServing(t, "--config", file, "--config", closed, "--redis", url),
		startServing(t, "--config", file, "--config", closed, "--redis", url),
	}
	undecided := func(s *serving) bool {
		_, body := s.get("GET", "/metrics")
		return !strings.Contains(body, `sluice_rls_undecided_total{domain="shop",rule="user"} 0`+"\n")
	}
	granted := 0
	for i := range 10 {
		if servers[i%2].ask("user", "ann") == passes {
			granted++
		}
	}
	if !undecided(servers[0]) && !undecided(servers[1]) { // a busy machine may take longer than 8 ms
		assert.Equal(t, 3, granted)
	}
	require.NoError(t, redis.Signal(syscall.SIGSTOP))
	for i := range 20 {
		assert.Equal(t, passes, servers[i%2].ask("user", "bob"))
	}
	a, err := servers[0].client.ShouldRateLimit(t.Context(), call("closed", "k", "x"))
	require.NoError(t, err)
	assert.Equal(t, over, a.GetOverallCode())
	assert.True(t, undecided(servers[0]))
	patience := time.Duration(0)
	require.Eventually(t, func() bool { // only a call that finds out whether Redis is back waits for it, for 8 ms
		patience = patience%(50*time.Millisecond) + time.Millisecond // on a busy machine, a call takes its time to get there
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, _ = servers[0].client.ShouldRateLimit(ctx, call("shop", "user", "bob"))
		_, body := servers[0].get("GET", "/metrics")
		require.Contains(t, body, `sluice_rls_responses_total{result="error"} 0`+"\n")
		return !strings.Contains(body, `sluice_rls_responses_total{result="canceled"} 0`+"\n")
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, redis.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool { return servers[0].ask("user", "ann") == over }, time.Minute, 20*time.Millisecond)

	require.Eventually(t, func() bool { // a busy machine may take longer than 8 ms
		status, body := servers[1].get("POST", "/limits/shop/user/reset?key=nobody")
		return status == 200 && assert.JSONEq(t, `{"reset": 0}`, body)
	}, time.Minute, 20*time.Millisecond)

	require.NoError(t, redis.Kill())
	for _, query := range []string{"", "?key=ann"} {
		status, body := servers[0].get("POST", "/limits/shop/user/reset"+query)
		assert.Equal(t, 503, status)
		assert.Contains(t, body, "redis is unreachable: ")
	}
	start := time.Now()
	late := startServing(t, "--config", file, "--redis", url)
	const message = `^sluice serve: redis is unreachable; fail-open of each domain decides: error="[^"]*"$`
	assert.Regexp(t, message, late.line(late.errs))
	assert.Equal(t, passes, late.ask("user", "eve"), "away at the start, too")
	late.signal(syscall.SIGTERM)
	if _, _, errs := late.ends(); time.Since(start) < 10*time.Second {
		assert.NotContains(t, errs, "fail-open", "the first requests say nothing new")
	}
}

// TestServeRedisPassword: limits that Redis does not decide are logged, with the reason.
func TestServeRedisPassword(t *testing.T) {
	t.Parallel()
	url, _ := redisServer(t)
	require.NoError(t, clientOf(t, url).ConfigSet(t.Context(), "requirepass", "right").Err())
	file := fileOf(t, "shop.yaml", shopRules)
	start := time.Now()
	s := startServing(t, "--config", file, "--redis", strings.Replace(url, "unix://", "unix://:wrong@", 1))
	assert.Regexp(t, `redis refused; fail-open of each domain decides: error="WRONGPASS .*"$`, s.line(s.errs))
	for range 20 {
		assert.Equal(t, passes, s.ask("user", "ann"))
	}
	s.signal(syscall.SIGTERM)
	_, _, errs := s.ends()
	if time.Since(start) < 10*time.Second {
		assert.NotContains(t, errs, "fail-open", "once in a while")
	}
}

// certificate writes a certificate for a name that vouches for itself, and its key.
func certificate(t *testing.T, cert, key, name string) *x509.CertPool {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, pair.Public(), pair)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return pool
}

// TestServeTLS: calls are over TLS, with the certificate that the files have now; a bad one keeps that before.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	file := fileOf(t, "shop.yaml", shopRules)
	status, _, errs := start(t, programs(t), "sluice", "serve", "--config", file, "--check", "--tls-cert", cert).ends()
	assert.Equal(t, 2, status)
	assert.Contains(t, errs, "--tls-cert and --tls-key require each other")
	status, _, errs = start(t, programs(t), "sluice", "serve", "--config", file, "--check", "--tls-cert", cert, "--tls-key", key).ends()
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "--tls-cert, --tls-key: ")

	old := certificate(t, cert, key, "old.example")
	s := startServing(t, "--config", file, "--tls-cert", cert, "--tls-key", key)
	asks := func(pool *x509.CertPool, name string) error {
		conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: name})))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), call("shop", "user", "ann"))
		return err
	}
	require.NoError(t, asks(old, "old.example"))
	_, err := s.client.ShouldRateLimit(t.Context(), call("shop", "user", "ann"))
	require.Error(t, err, "without TLS")

	renewed := certificate(t, cert, key, "new.example")
	assert.Regexp(t, "reloaded", s.line(s.errs))
	require.NoError(t, asks(renewed, "new.example"))
	require.Error(t, asks(old, "old.example"))
	require.NoError(t, os.WriteFile(cert, []byte("no certificate"), 0o600))
	assert.Regexp(t, "--tls-cert, --tls-key: ", s.line(s.errs))
	assert.Regexp(t, "keeping the previous configuration", s.line(s.errs))
	require.NoError(t, asks(renewed, "new.example"))
}
