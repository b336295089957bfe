// Command rls compares sluice serve with envoyproxy/ratelimit, on one machine:
//
//	go -C bench run ./rls
//
// It builds both, and a stub that always says OK, which is what grpc-go can do here. A client of one connection asks with 1, 16, 64
// and 256 callers at a time. The servers take turns, and the program prints the median of the rounds. Then it sends requests of 10,000
// descriptors each, with others beside them. With redis-server in PATH both share it; then it is stopped (SIGSTOP), and the time of each
// response is reported.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	envoy "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluice-go/sluice/internal/docs"
)

const rules = `domain: bench
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 1000000}
`

var (
	rounds   = flag.Int("rounds", 3, "how often each server is asked, in turn")
	during   = flag.Duration("time", 2*time.Second, "how long, each time")
	users    = flag.Int("users", 1000, "different values")
	only     = flag.Int("callers", 0, "at a time; 0: 1, 16, 64 and 256")
	onlyStop = flag.Bool("stop", false, "measure only while Redis is stopped")
	onlyMany = flag.Bool("many", false, "measure only requests of many descriptors")
)

func main() {
	flag.Parse()
	log.SetFlags(0)
	if os.Getenv("RLS_STUB") != "" {
		serveStub(os.Getenv("RLS_STUB"))
		return
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "rls")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b, err := build(ctx, dir)
	if err != nil {
		return err
	}
	defer b.end()
	redis, err := b.startRedis(ctx)
	if err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	serve := []string{filepath.Join(dir, "sluice"), "serve", "--config", filepath.Join(dir, "config", "bench.yaml"), "--listen"}
	servers := []*target{
		{name: "stub", start: func(address string) (command, env []string) {
			return os.Args[:1], []string{"RLS_STUB=" + address}
		}},
		{name: "reference", start: func(address string) (command, env []string) {
			return []string{filepath.Join(dir, "service_cmd")}, b.referenceEnv(address)
		}},
		{name: "sluice", start: func(address string) (command, env []string) {
			return append(slices.Clip(serve), address), nil
		}},
		{name: "sluice, Redis", start: func(address string) (command, env []string) {
			return append(slices.Clip(serve), address, "--redis", "unix://"+b.socket), nil
		}},
	}
	for _, s := range servers {
		if err := b.start(ctx, s); err != nil {
			return err
		}
	}
	if !*onlyStop && !*onlyMany {
		compare(ctx, servers)
	}
	if !*onlyStop {
		many(ctx, servers[1:])
	}
	if *onlyMany {
		return nil
	}
	return stopped(ctx, redis, servers)
}

// many sends requests of 10,000 descriptors, and requests of one descriptor beside them. All of them are below their limits, so a
// response that is not OK means that the server has rejected the store.
func many(ctx context.Context, servers []*target) {
	const descriptors, requests = 10_000, 20
	fmt.Printf("%d descriptors: %-14s %8s %10s %10s %10s %14s\n", descriptors, "server", "requests", "fastest", "median", "slowest", "of 1 beside")
	for _, s := range servers {
		var over atomic.Bool
		var beside sync.WaitGroup
		wrong, small, smallWrong := 0, 0, 0
		beside.Go(func() {
			for ; !over.Load(); small++ {
				if r, err := s.client.ShouldRateLimit(ctx, request(rand.IntN(*users))); err != nil || r.GetOverallCode() != ratelimit.RateLimitResponse_OK {
					smallWrong++
				}
				time.Sleep(time.Millisecond)
			}
		})
		took := make([]time.Duration, 0, requests)
		for i := range requests {
			req := &ratelimit.RateLimitRequest{Domain: "bench"}
			for j := range descriptors { // each value twice: a new limit, and one that the server knows
				req.Descriptors = append(req.Descriptors, request(i/2*descriptors+j).GetDescriptors()...)
			}
			start := time.Now()
			r, err := s.client.ShouldRateLimit(ctx, req)
			if took = append(took, time.Since(start)); err != nil || r.GetOverallCode() != ratelimit.RateLimitResponse_OK {
				wrong++
			}
		}
		over.Store(true)
		beside.Wait()
		slices.Sort(took)
		fmt.Printf("%18s %-14s %3d of %d %10v %10v %10v %7d of %d\n", "", s.name, requests-wrong, requests,
			took[0].Round(time.Millisecond), took[requests/2].Round(time.Millisecond), took[requests-1].Round(time.Millisecond), small-smallWrong, small)
	}
}

// compare calls the servers in turn.
func compare(ctx context.Context, servers []*target) {
	fmt.Print(docs.Measured(time.Now()))
	fmt.Printf("%-14s %8s %12s %10s %10s %12s\n", "server", "callers", "responses/s", "p50", "p99", "of reference")
	each := []int{1, 16, 64, 256}
	if *only > 0 {
		each = []int{*only}
	}
	for _, callers := range each {
		results := make(map[string][]result)
		for range *rounds {
			for _, s := range servers {
				results[s.name] = append(results[s.name], s.load(ctx, callers, *during))
			}
		}
		reference := median(results["reference"], func(r result) float64 { return r.rate })
		for _, s := range servers {
			all := results[s.name]
			rate := median(all, func(r result) float64 { return r.rate })
			fmt.Printf("%-14s %8d %12.0f %10v %10v %11.2fx\n", s.name, callers, rate,
				time.Duration(median(all, func(r result) float64 { return float64(r.p50) })).Round(time.Microsecond),
				time.Duration(median(all, func(r result) float64 { return float64(r.p99) })).Round(time.Microsecond), rate/reference)
		}
	}
}

// stopped stops Redis, and reports how long responses take.
func stopped(ctx context.Context, redis *exec.Cmd, servers []*target) error {
	if err := redis.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	defer func() { _ = redis.Process.Signal(syscall.SIGCONT) }()
	for _, s := range servers {
		if s.name != "reference" && s.name != "sluice, Redis" {
			continue
		}
		var slowest time.Duration
		replies, lost := 0, 0
		for range 200 {
			start := time.Now()
			one, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := s.client.ShouldRateLimit(one, request(rand.IntN(*users)))
			cancel()
			if slowest = max(slowest, time.Since(start)); err == nil {
				replies++
			} else {
				lost++
			}
			if lost == 5 {
				break
			}
		}
		fmt.Printf("Redis stopped, %s: %d responses, %d not within 2 s, the slowest after %v\n", s.name, replies, lost, slowest.Round(100*time.Microsecond))
	}
	return nil
}

func median(all []result, of func(result) float64) float64 {
	values := make([]float64, len(all))
	for i, r := range all {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// target is a server.
type target struct {
	name   string
	start  func(address string) (command, env []string)
	client ratelimit.RateLimitServiceClient
}

// result is a client's measurements.
type result struct {
	rate     float64 // responses a second
	p50, p99 time.Duration
}

func request(user int) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "bench", Descriptors: []*envoy.RateLimitDescriptor{{
		Entries: []*envoy.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.Itoa(user)}},
	}}}
}

// load sends requests from a number of callers.
func (s *target) load(ctx context.Context, callers int, during time.Duration) result {
	var over atomic.Bool
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	start := time.Now()
	for i := range callers {
		all.Go(func() {
			for !over.Load() {
				at := time.Now()
				if _, err := s.client.ShouldRateLimit(ctx, request(rand.IntN(*users))); err != nil {
					log.Fatalf("%s: %v", s.name, err)
				}
				took[i] = append(took[i], time.Since(at))
			}
		})
	}
	time.Sleep(during)
	over.Store(true)
	all.Wait()
	passed := time.Since(start)
	flat := slices.Concat(took...)
	slices.Sort(flat)
	return result{float64(len(flat)) / passed.Seconds(), flat[len(flat)/2], flat[len(flat)*99/100]}
}

// bench is the programs that were built and started.
type bench struct {
	dir, socket string
	processes   []*exec.Cmd
}

// build builds the programs.
func build(ctx context.Context, dir string) (*bench, error) {
	b := &bench{dir: dir, socket: filepath.Join(dir, "redis")}
	root, err := rootOf(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct{ in, what string }{
		{filepath.Join(root, "bench", "rls"), "github.com/envoyproxy/ratelimit/src/service_cmd"},
		{filepath.Join(root, "cmd", "sluice"), "."},
	} {
		if err := goBuild(ctx, c.in, dir, c.what); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "config"), 0o700); err != nil {
		return nil, err
	}
	return b, os.WriteFile(filepath.Join(dir, "config", "bench.yaml"), []byte(rules), 0o600)
}

// goBuild builds a program of the module in a directory.
func goBuild(ctx context.Context, in, dir, what string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-o", dir+"/", what)
	cmd.Dir, cmd.Stderr = in, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w", what, err)
	}
	return nil
}

// rootOf returns the directory of the repository.
func rootOf(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sluice-go/sluice/bench").Output()
	if err != nil {
		return "", fmt.Errorf("run it in bench: %w", err)
	}
	return filepath.Dir(string(out[:len(out)-1])), nil
}

func (b *bench) startRedis(ctx context.Context) (*exec.Cmd, error) {
	c := exec.CommandContext(ctx, "redis-server", "--port", "0", "--unixsocket", b.socket, "--save", "", "--appendonly", "no")
	if err := c.Start(); err != nil {
		return nil, err
	}
	b.processes = append(b.processes, c)
	return c, waitFor(ctx, "unix", b.socket)
}

// referenceEnv configures the reference, with the logs off.
func (b *bench) referenceEnv(address string) []string {
	host, port, _ := strings.Cut(address, ":")
	return []string{
		"GRPC_HOST=" + host, "GRPC_PORT=" + port, "HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "USE_STATSD=false", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + b.dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false", "RUNTIME_APPDIRECTORY=config", "RUNTIME_IGNOREDOTFILES=true",
		"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=unix", "REDIS_URL=" + b.socket, "DISABLE_STATS=true", "USE_PROMETHEUS=false",
	}
}

// start starts a server, and connects to it.
func (b *bench) start(ctx context.Context, s *target) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_ = l.Close()
	command, env := s.start(address)
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = append(os.Environ(), env...)
	c.Stderr = io.Discard
	if err := c.Start(); err != nil {
		return err
	}
	b.processes = append(b.processes, c)
	if err := waitFor(ctx, "tcp", address); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	s.client = ratelimit.NewRateLimitServiceClient(conn)
	return nil
}

// waitFor waits until someone listens.
func waitFor(ctx context.Context, network, address string) error {
	for range 400 {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("no server listens on %s", address)
}

func (b *bench) end() {
	for _, c := range b.processes {
		_ = c.Process.Signal(syscall.SIGCONT)
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// stub always says OK.
type stub struct {
	ratelimit.UnimplementedRateLimitServiceServer
}

func (stub) ShouldRateLimit(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return &ratelimit.RateLimitResponse{
		OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses:    []*ratelimit.RateLimitResponse_DescriptorStatus{{Code: ratelimit.RateLimitResponse_OK}},
	}, nil
}

func serveStub(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(s, stub{})
	log.Fatal(s.Serve(l))
}
