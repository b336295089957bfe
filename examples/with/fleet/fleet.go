// Fleet starts itself as four processes that share a rate limit and a concurrency limit.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/internal/program"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

const (
	processes = 4
	perSecond = 1000
	atOnce    = 8
	budget    = time.Second // far longer than a decision takes, so that the limits decide and not the timeout
)

const usage = `Fleet starts four processes, itself, that share a limit of 1,000 permits a
second and a concurrency limit of 8, and prints what each got, the sum, and the
highest number of leases held at the same time.

Usage: fleet [-seconds N]

It uses the Redis at REDIS_URL, as redis://localhost:6379, or one of its own in
memory.
`

func main() { program.Main(usage, define) }

func define(flags *flag.FlagSet, s program.Streams) program.Body {
	url := flags.String("member", "", "be a member of the fleet, on this Redis")
	key := flags.String("key", "", "prefix of the fleet's keys in Redis (default: a random one)")
	until := flags.Int64("until", 0, "when a member ends, in nanoseconds since 1970")
	seconds := flags.Int("seconds", 3, "how long the fleet works, 1 to 3600")
	return func(ctx context.Context, args []string) error {
		if err := program.NoArguments(args); err != nil {
			return err
		}
		if *seconds < 1 || *seconds > 3600 {
			return program.Usage("-seconds = %d, want 1 to 3600", *seconds)
		}
		if *key == "" {
			*key = "fleet" + strconv.FormatInt(time.Now().UnixNano(), 36)
		}
		if *url != "" {
			return member(ctx, s.Out, *url, *key, time.Unix(0, *until))
		}
		return fleet(ctx, s, *key, *seconds)
	}
}

// fleet starts the members and adds up their reports.
func fleet(ctx context.Context, s program.Streams, key string, seconds int) error {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		m := miniredis.NewMiniRedis()
		if err := m.Start(); err != nil {
			return err
		}
		defer m.Close()
		url = "redis://" + m.Addr()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	sum := 0
	until := time.Now().Add(time.Duration(seconds) * time.Second) // the same for all, no matter how long each takes to start
	for i := range processes {
		wg.Go(func() {
			n, line, err := run(ctx, s.Err, self, url, key, until)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			sum += n
			_, _ = fmt.Fprintf(s.Out, "process %d: %s\n", i+1, line)
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	most, err := report(ctx, url, key)
	if err != nil {
		return err
	}
	// A bucket of a second's permits starts full.
	limit := perSecond * (seconds + 1)
	_, _ = fmt.Fprintf(s.Out, "together: %d permits in %d s, at most %d by the limit; most held together: %d of %d\n", sum, seconds, limit, most, atOnce)
	if sum > limit || most > atOnce {
		return errors.New("the limit was not kept")
	}
	return nil
}

// run starts a member and returns the number of permits granted to it.
func run(ctx context.Context, stderr io.Writer, self, url, key string, until time.Time) (int, string, error) {
	cmd := exec.CommandContext(ctx, self, "-member", url, "-key", key, "-until", strconv.FormatInt(until.UnixNano(), 10))
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, "failed", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	number, _, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(number)
	return n, line, err
}

// open returns a client of the server at the URL.
func open(url string) (*redis.Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("REDIS_URL is no URL of a Redis, want redis://localhost:6379") // err has its password
	}
	o.DialerRetries = 1 // a refused connection fails immediately
	return redis.NewClient(o), nil
}

// report returns the highest number of leases held at the same time.
func report(ctx context.Context, url, key string) (int, error) {
	c, err := open(url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	most, err := c.Get(ctx, key+":most").Int()
	return most, cmp.Or(err, c.Del(ctx, key+":most", key+":held").Err())
}

// member works under the two limits and prints the number of permits granted to it.
func member(ctx context.Context, out io.Writer, url, key string, until time.Time) error {
	c, err := open(url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	shared := redislimit.Options{Store: goredis.New(c), Timeout: budget}
	shared.Key = key + " rate"
	rate, err := redislimit.New(core.PerSecond(perSecond, perSecond), shared)
	if err != nil {
		return err
	}
	defer func() { _ = rate.Close() }()
	shared.Key = key + " jobs"
	jobs, err := redislimit.New(core.ConcurrencyLimiterOptions{PermitLimit: atOnce, QueueLimit: 100}, shared)
	if err != nil {
		return err
	}
	defer func() { _ = jobs.Close() }()

	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for work(ctx, c, jobs, key) == nil {
			}
		})
	}
	granted := 0
	for {
		if _, err := rate.Acquire(ctx, 1); err != nil {
			break
		}
		granted++
	}
	wg.Wait()
	st := jobs.Statistics()
	_, _ = fmt.Fprintf(out, "%d permits, %d jobs\n", granted, st.Granted)
	return nil
}

// work does one job and records in Redis how many jobs run at the same time.
func work(ctx context.Context, c *redis.Client, jobs core.Limiter, key string) error {
	lease, err := jobs.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	defer lease.Release()
	const started = `local n = redis.call('INCR', KEYS[1])
if n > tonumber(redis.call('GET', KEYS[2]) or 0) then redis.call('SET', KEYS[2], n) end`
	job := redislimit.Context(ctx, lease) // it ends if the lease is lost
	lasting := context.WithoutCancel(ctx)
	if err := c.Eval(lasting, started, []string{key + ":held", key + ":most"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-job.Done():
	}
	return c.Decr(lasting, key+":held").Err()
}
