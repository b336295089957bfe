package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
	"github.com/sluice-go/sluice/redislimit/rueidis"
)

// most is a limit that is never reached.
const most = 1 << 30

// contender decides about one permit of a key.
type contender struct {
	name string
	make func(b *testing.B, addr string, limit int) func(key int) bool
}

func keyName(i int) string { return "key" + strconv.Itoa(i) }

// buckets returns our limiter of each key.
func buckets(b *testing.B, s redislimit.Store, ahead, limit int) func(int) bool {
	b.Helper()
	const keys = 1000
	all := make([]*redislimit.Limiter, keys)
	for i := range all {
		l, err := redislimit.New(core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: limit, ReplenishmentPeriod: time.Hour}, redislimit.Options{Store: s, Key: keyName(i), Prefetch: ahead, Timeout: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		all[i] = l
	}
	return func(key int) bool { return all[key].TryAcquire(1).Acquired() }
}

func goRedis(b *testing.B, addr string) *redis.Client {
	b.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func rueidisClient(b *testing.B, addr string) rueidisclient.Client {
	b.Helper()
	c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{addr}, DisableCache: true, PipelineMultiplex: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

var contenders = []contender{
	{"sluice-goredis", func(b *testing.B, addr string, limit int) func(int) bool {
		return buckets(b, goredis.New(goRedis(b, addr)), 1, limit)
	}},
	{"sluice-rueidis", func(b *testing.B, addr string, limit int) func(int) bool {
		return buckets(b, rueidis.New(rueidisClient(b, addr)), 1, limit)
	}},
	{"sluice-ahead", func(b *testing.B, addr string, limit int) func(int) bool {
		return buckets(b, rueidis.New(rueidisClient(b, addr)), 0, limit)
	}},
	{"sluice-take", func(b *testing.B, addr string, limit int) func(int) bool {
		s, o := goredis.New(goRedis(b, addr)), core.TokenBucketOptions{TokenLimit: limit, TokensPerPeriod: limit, ReplenishmentPeriod: time.Hour}
		return func(key int) bool {
			l, err := redislimit.Take(b.Context(), s, keyName(key), o, 1)
			return err == nil && l.Acquired()
		}
	}},
	{"redis_rate", func(b *testing.B, addr string, limit int) func(int) bool {
		l := redis_rate.NewLimiter(goRedis(b, addr))
		return func(key int) bool {
			r, err := l.Allow(b.Context(), keyName(key), redis_rate.PerHour(limit))
			return err == nil && r.Allowed > 0
		}
	}},
	{"throttled", func(b *testing.B, addr string, limit int) func(int) bool {
		store, err := goredisstore.NewCtx(goRedis(b, addr), "throttled:")
		if err != nil {
			b.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerHour(limit), MaxBurst: limit})
		if err != nil {
			b.Fatal(err)
		}
		return func(key int) bool {
			limited, _, err := l.RateLimitCtx(b.Context(), keyName(key), 1)
			return err == nil && !limited
		}
	}},
}

// BenchmarkTake compares redislimit with redis_rate and throttled, on a redis-server that it starts: a take that is granted: by one caller, by 64 of one key, and by 64 of 1,000 keys. It also
// reports the commands per decision, and the server's CPU time.
func BenchmarkTake(b *testing.B) {
	for _, callers := range []struct{ callers, keys int }{{1, 1}, {64, 1}, {64, 1000}} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("impl=%s/callers=%d/keys=%d", c.name, callers.callers, callers.keys), func(b *testing.B) {
				addr := server(b)
				take := c.make(b, addr, most)
				take(0)
				observe(b, addr, func() { crowd(b, callers.callers, func(i int) { take(i % callers.keys) }) })
			})
		}
	}
}

// BenchmarkRefused is a take by a caller that is refused again and again.
func BenchmarkRefused(b *testing.B) {
	for _, c := range contenders {
		b.Run("impl="+c.name, func(b *testing.B) {
			addr := server(b)
			take := c.make(b, addr, 1)
			for range 10 {
				take(0)
			}
			observe(b, addr, func() { crowd(b, 1, func(int) { take(0) }) })
		})
	}
}

// crowd does it b.N times, on n goroutines.
func crowd(b *testing.B, n int, do func(i int)) {
	b.Helper()
	b.ReportAllocs()
	var next atomic.Int64
	done := make(chan struct{})
	b.ResetTimer()
	for range n {
		go func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				do(int(i))
			}
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	b.StopTimer()
}

// observe reports the server's work during f.
func observe(b *testing.B, addr string, f func()) {
	b.Helper()
	commands, bytes, cpu := info(b, addr)
	f()
	c, n, u := info(b, addr)
	b.ReportMetric((c-commands-1)/float64(b.N), "commands/op") // info itself is one
	b.ReportMetric((n-bytes)/float64(b.N), "net-B/op")
	b.ReportMetric((u-cpu)*1e9/float64(b.N), "server-ns/op")
}

func info(b *testing.B, addr string) (commands, bytes, cpu float64) {
	b.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer c.Close()
	all := c.Info(b.Context(), "stats", "cpu", "commandstats").Val()
	figure := func(line, name string) float64 {
		for l := range strings.SplitSeq(all, "\r\n") {
			if rest, ok := strings.CutPrefix(l, line); ok {
				for f := range strings.SplitSeq(rest, ",") {
					if v, ok := strings.CutPrefix(f, name); ok {
						x, _ := strconv.ParseFloat(v, 64)
						return x
					}
				}
			}
		}
		return 0
	}
	for _, name := range []string{"eval", "evalsha", "info"} { // the others run within scripts
		commands += figure("cmdstat_"+name+":", "calls=")
	}
	return commands, figure("total_net_input_bytes:", "") + figure("total_net_output_bytes:", ""),
		figure("used_cpu_sys:", "") + figure("used_cpu_user:", "")
}

// server starts a redis-server, and returns its address.
func server(b *testing.B) string {
	b.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		b.Skip("SKIPPED: redis-server is not installed; apt-get install redis-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir())
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("the server does not respond")
	return ""
}
