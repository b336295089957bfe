package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/spec"
)

// server is a server with its current rules.
type server struct {
	options

	say      func(format string, args ...any)
	service  *rlslimit.Service
	store    *shared.Store                   // nil without --redis
	pair     atomic.Pointer[tls.Certificate] // nil without TLS
	metrics  *metrics
	health   *health.Server
	draining atomic.Bool
}

// names are the services that clients check the health of.
var names = []string{"", "ratelimit", ratelimit.RateLimitService_ServiceDesc.ServiceName}

// timeout is how long Redis may take for a request, so that a response takes 10 ms.
const timeout = 8 * time.Millisecond

// newServer reads the files. It does not connect to Redis.
func newServer(o options, say func(string, ...any)) (*server, error) {
	s := &server{options: o, say: say, health: health.NewServer()}
	c, pair, err := s.load()
	if err != nil {
		return nil, err
	}
	s.pair.Store(pair)
	options := rlslimit.Options{Config: c, Headers: o.headers, Logger: cli.NewLogger(s.say)}
	if o.redis != "" {
		if s.store, err = shared.Open(o.redis, timeout); err != nil {
			return nil, fmt.Errorf("--redis: %q: %w", shared.WithoutPassword(o.redis), err)
		}
		options.Store, options.Timeout = s.store.Limits(), timeout
	}
	if s.service, err = rlslimit.New(options); err != nil {
		s.close()
		return nil, err
	}
	s.metrics = newMetrics(s.service)
	return s, nil
}

// load reads the files, and prints warnings about keys that have no effect. Without TLS there is no pair.
func (s *server) load() (c rlslimit.Config, pair *tls.Certificate, err error) {
	load := rlslimit.Load
	if s.merge {
		load = rlslimit.LoadMerged
	}
	c, err = load(s.files...)
	for _, w := range c.Warnings() {
		s.say("%v", w)
	}
	if s.cert == "" {
		return c, nil, err
	}
	loaded, wrong := tls.LoadX509KeyPair(s.cert, s.key)
	if wrong != nil {
		err = errors.Join(err, fmt.Errorf("--tls-cert, --tls-key: %s", strings.TrimPrefix(wrong.Error(), "tls: ")))
	}
	return c, &loaded, err
}

func (s *server) close() {
	if s.service != nil {
		_ = s.service.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
}

// run serves until a signal comes, and for as long as grace after that.
func (s *server) run(ctx context.Context) error {
	var main *grpc.Server
	r := service.Service{
		Say: s.say, Files: s.watched(),
		Start: func(ctx context.Context, failed chan<- error) (stop func(), err error) {
			l, err := cli.Listen(ctx, "--listen", s.listen)
			if err != nil {
				return nil, err
			}
			s.say("listening on %s", l.Addr())
			s.warnUnlimited()
			admin, err := service.ListenAdmin(ctx, "--admin", s.options.admin, s.handler(), s.say, failed)
			if err != nil {
				return nil, err
			}
			s.warm()
			main = s.grpc()
			go func() { failed <- main.Serve(l) }()
			return func() { _ = admin.Close() }, nil
		},
		Reload: func(bool) { s.reload() },
		Drain:  func(signals <-chan os.Signal) error { return s.drain(main, signals) },
	}
	return r.Run(ctx)
}

// watched returns the files that a change of is a reload.
func (s *server) watched() []string {
	if s.cert == "" {
		return s.files
	}
	return append(slices.Clip(s.files), s.cert, s.key)
}

// warm connects to Redis and loads the scripts, so that the first calls do not wait for that. If that fails, the service logs why.
func (s *server) warm() {
	if s.store == nil {
		return
	}
	if err := s.store.Warm(); err != nil {
		s.service.StoreFailed(err)
	}
}

// grpc returns the gRPC server.
func (s *server) grpc() *grpc.Server {
	security := insecure.NewCredentials()
	if s.cert != "" {
		security = credentials.NewTLS(&tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil },
		})
	}
	g := grpc.NewServer(
		grpc.Creds(security),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: time.Duration(s.age), MaxConnectionAgeGrace: time.Duration(s.grace)}),
		// Gateways ping to find out whether connections are alive.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(10*time.Second),
		// Long-lived goroutines have grown their stacks already (bench/rls).
		grpc.NumStreamWorkers(uint32(4*runtime.GOMAXPROCS(0))),
		grpc.UnaryInterceptor(s.metrics.observe),
	)
	ratelimit.RegisterRateLimitServiceServer(g, s.service)
	healthpb.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	for _, name := range names {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	return g
}

// reload reads the files again. If they have errors, it prints them and nothing changes.
func (s *server) reload() {
	c, pair, err := s.load()
	if err == nil {
		err = s.service.Update(c)
	}
	if err == nil {
		s.pair.Store(pair)
	}
	s.metrics.reloaded(err)
	if err != nil {
		cli.SayAll(s.say, err)
		s.say("reload failed; keeping the previous configuration")
		return
	}
	s.say("reloaded %s", strings.Join(s.files, ", "))
	s.warnUnlimited()
}

// warnUnlimited prints a warning for each domain whose requests all pass, but for those that bring a limit.
func (s *server) warnUnlimited() {
	var domains []string // in the order of the files
	limits, enforces := make(map[string]bool), make(map[string]bool)
	unlimited := spec.Limit{}.String()
	for _, r := range s.service.Rules() { // each domain has some, if only that for the limits that requests bring
		if len(domains) == 0 || domains[len(domains)-1] != r.Domain {
			domains = append(domains, r.Domain)
		}
		if r.Limit != "" && r.Limit != unlimited {
			limits[r.Domain] = true
			enforces[r.Domain] = enforces[r.Domain] || !r.Shadow
		}
	}
	for _, domain := range domains {
		why := "add rate_limit or limit to a descriptor"
		if limits[domain] {
			why = "rules with shadow_mode or quota_mode reject nothing; remove the key to enforce them"
		}
		if !enforces[domain] {
			s.say("%s: warning: nothing is limited in domain %q; %s", strings.Join(s.files, ", "), domain, why)
		}
	}
}

// drain stops accepting connections, and waits for in-flight calls. The end of the process closes the connections that are left: the
// server's own Stop would wait for handshakes.
func (s *server) drain(g *grpc.Server, signals <-chan os.Signal) error {
	s.draining.Store(true)
	s.health.Shutdown() // NOT_SERVING
	grace := time.Duration(s.grace)
	s.say("shutting down; waiting up to %v for in-flight calls", grace)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.GracefulStop()
	}()
	over := time.NewTimer(grace)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	idle := 0
	for {
		select {
		case <-done:
			s.say("all in-flight calls were answered")
			return nil
		case <-look.C:
			// GracefulStop has sent GOAWAY. Do not wait for clients that do not react.
			idle++
			if s.metrics.inFlight.Load() > 0 {
				idle = 0
			}
			if idle >= looks {
				s.say("all in-flight calls were answered")
				return nil
			}
		case <-over.C:
			s.say("grace period of %v expired; cutting off %d in-flight calls", grace, s.metrics.inFlight.Load())
			return nil
		case sig := <-signals:
			return cli.Exit(cli.StatusOf(sig), errors.New("in-flight calls were cut off"))
		}
	}
}

// A server is idle if no call was in flight at a number of looks in a row.
const (
	lookEvery = 20 * time.Millisecond
	looks     = 25
)
