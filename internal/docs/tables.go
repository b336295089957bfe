package docs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// table returns a table of what was measured.
func (f Figures) table(name string) (string, error) {
	switch name {
	case "library":
		return f.library(func(comparison) bool { return true })
	case "front":
		return f.library(func(c comparison) bool { return c.front })
	case "redis":
		return f.redis()
	case "rejections":
		return f.rejections()
	case "commands":
		return f.printed(0)
	case "proxy":
		return f.printed(1)
	case "arrivals":
		return f.printed(2)
	case "rls":
		return f.rls()
	}
	return "", errors.New("unknown")
}

// A comparison is a row of the table of the library: a benchmark, and the implementation that ours is compared with.
type comparison struct {
	work, with  string
	name, rival string
	front       bool // also in the README
}

var comparisons = []comparison{
	{"concurrency limiter, TryAcquire and Release", "x/sync/semaphore", "Concurrency/work=try/impl=sluice", "semaphore", true},
	{"the same from all cores", "x/sync/semaphore", "Concurrency/work=try-all-cores/impl=sluice", "semaphore", false},
	{"concurrency limiter, Acquire and Release", "x/sync/semaphore", "Concurrency/work=acquire/impl=sluice", "semaphore", false},
	{"hand-over, 16 goroutines on 1 permit", "x/sync/semaphore", "HandOver/goroutines=16/permits=1/impl=sluice", "semaphore", false},
	{"hand-over, 1,000 goroutines on 2 permits", "x/sync/semaphore", "HandOver/goroutines=1000/permits=2/impl=sluice", "semaphore", false},
	{"token bucket, TryAcquire", "x/time/rate", "Rate/work=bucket/impl=sluice", "x-time-rate", true},
	{"token bucket, TryAcquire from all cores", "x/time/rate", "Rate/work=bucket-all-cores/impl=sluice", "x-time-rate", false},
	{"token bucket, Acquire", "x/time/rate", "Rate/work=bucket-acquire/impl=sluice", "x-time-rate", false},
	{"token bucket, rejected", "x/time/rate", "Rate/work=bucket-rejected/impl=sluice", "x-time-rate", false},
	{"fixed window, TryAcquire", "x/time/rate", "Rate/work=fixed-window/impl=sluice", "x-time-rate", false},
	{"sliding window, TryAcquire", "x/time/rate", "Rate/work=sliding-window/impl=sluice", "x-time-rate", false},
	{"channel with a limiter, 1 sender and 1 receiver", "native channel", "Channel/pairs=1/impl=sluice", "native", false},
	{"channel with a limiter, 4 senders and 4 receivers", "native channel", "Channel/pairs=4/impl=sluice", "native", true},
	{"channel with a limiter, 64 senders and 64 receivers", "native channel", "Channel/pairs=64/impl=sluice", "native", false},
	{"channel.Bounded, 4 senders and 4 receivers", "native channel", "Channel/pairs=4/impl=sluice-bounded", "native", false},
	{"the same", "native channel and a select on ctx.Done()", "Channel/pairs=4/impl=sluice-bounded", "native-select", false},
	{"channel with a limiter, items of 4 KiB", "native channel", "LargeItems/capacity=64/impl=sluice", "native", false},
	{"channel.Bounded, items of 4 KiB, capacity 1", "native channel", "LargeItems/capacity=1/impl=sluice-bounded", "native", false},
	{"pipe, writes of 1 B", "io.Pipe", "Pipe/write=1/impl=sluice", "io.Pipe", false},
	{"pipe, writes of 512 B", "io.Pipe", "Pipe/write=512/impl=sluice", "io.Pipe", true},
	{"pipe, writes of 4 KiB", "io.Pipe", "Pipe/write=4096/impl=sluice", "io.Pipe", false},
	{"pipe, writes of 32 KiB", "io.Pipe", "Pipe/write=32768/impl=sluice", "io.Pipe", false},
	{"pipe, writes of 256 KiB", "io.Pipe", "Pipe/write=262144/impl=sluice", "io.Pipe", false},
	{"throttled write of 32 KiB", "x/time/rate", "ThrottledWrite/impl=sluice", "x-time-rate", false},
	{"worker pool with a queue, empty task, 16 workers", "pond with the same queue", "Pool/workers=16/impl=sluice", "pond", true},
	{"the same", "16 goroutines on a buffered channel", "Pool/workers=16/impl=sluice", "native", false},
	{"worker pool with a queue, empty task, 64 workers", "pond with the same queue", "Pool/workers=64/impl=sluice", "pond", false},
	{"the same", "64 goroutines on a buffered channel", "Pool/workers=64/impl=sluice", "native", false},
	{"worker pool without a queue, empty task, 16 workers", "errgroup", "Pool/workers=16/impl=sluice-unqueued", "errgroup", false},
	{"the same", "ants", "Pool/workers=16/impl=sluice-unqueued", "ants", false},
	{"limiter of a live key, one of 1,000", "sync.Map and a limiter", "LiveKey/impl=sluice", "sync.Map", false},
}

func (f Figures) library(shown func(comparison) bool) (string, error) {
	var b strings.Builder
	b.WriteString("| work | compared with | Sluice | ratio |\n|---|---|--:|--:|\n")
	for _, c := range comparisons {
		if !shown(c) {
			continue
		}
		time, err := f.number("time; " + c.name + "; ns/op")
		if err != nil {
			return "", err
		}
		row, ok := f.Rows[c.name+" vs "+c.rival]
		if !ok {
			return "", fmt.Errorf("bench/results.txt has no row %s vs %s", c.name, c.rival)
		}
		v := row.Values
		fmt.Fprintf(&b, "| %s | %s | %s | **%.2f** (%.2f–%.2f) |\n", c.work, c.with, time, v["ratio"], v["q1"], v["q3"])
	}
	return b.String(), nil
}

var redisLimiters = []struct{ title, name string }{
	{"redis_rate v10.0.1", "redis_rate"},
	{"throttled v2.15.0", "throttled"},
	{"redislimit, go-redis", "sluice-goredis"},
	{"redislimit, rueidis", "sluice-rueidis"},
	{"redislimit, rueidis, defaults", "sluice-ahead"},
}

// redis returns the table of granted requests.
func (f Figures) redis() (string, error) {
	var b strings.Builder
	b.WriteString("| a granted request | time per decision | compared with redis_rate | allocations | commands per decision | bytes | server's CPU |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, crowd := range []struct{ title, name string }{
		{"one caller", "callers=1/keys=1"}, {"64 callers, one key", "callers=64/keys=1"}, {"64 callers, 1,000 keys", "callers=64/keys=1000"},
	} {
		fmt.Fprintf(&b, "| **%s** | | | | | | |\n", crowd.title)
		name := func(limiter string) string { return "Take/impl=" + limiter + "/" + crowd.name }
		base, ok := f.Rows[name("redis_rate")]
		if !ok {
			return "", fmt.Errorf("bench/results.txt has no row %s", name("redis_rate"))
		}
		for _, l := range redisLimiters {
			row, ok := f.Rows[name(l.name)]
			if !ok {
				continue // with 1,000 keys the defaults were not measured
			}
			compared, v := "1", row.Values
			if versus, ok := f.Rows[name(l.name)+" vs redis_rate"]; ok {
				compared = ratio(versus.Values["ratio"])
			} else if l.name != "redis_rate" {
				compared = ratio(v["ns/op"] / base.Values["ns/op"])
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", l.title, duration(v["ns/op"]), compared,
				digits(v["allocs/op"], 3), digits(v["commands/op"], 1+min(1, int(v["commands/op"]))), digits(v["net-B/op"], 3), duration(v["server-ns/op"]))
		}
	}
	return b.String(), nil
}

// ratio writes a ratio of times in words.
func ratio(r float64) string {
	if r < 0.5 {
		return digits(1/r, 2) + " times as fast"
	}
	return fmt.Sprintf("%.2f of its time", r)
}

// rejections returns the table of requests that are rejected again and again.
func (f Figures) rejections() (string, error) {
	var b strings.Builder
	b.WriteString("| a request that is rejected repeatedly | time per decision | commands | allocations |\n|---|---|---|---|\n")
	for _, l := range redisLimiters[:4] {
		row, ok := f.Rows["Refused/impl="+l.name]
		if !ok {
			return "", fmt.Errorf("bench/results.txt has no row Refused/impl=%s", l.name)
		}
		v := row.Values
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.title, duration(v["ns/op"]), digits(v["commands/op"], 1), digits(v["allocs/op"], 3))
	}
	return b.String(), nil
}

// printed returns the n-th table that bench/cmd/compare has printed.
func (f Figures) printed(n int) (string, error) {
	inside, seen := false, -1
	var b strings.Builder
	for line := range strings.Lines(f.commands) {
		is := strings.HasPrefix(line, "|")
		if is && !inside {
			seen++
		}
		if inside = is; is && seen == n {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("bench/commands.txt has no table %d", n+1)
	}
	return b.String(), nil
}

// rls returns the table that bench/rls has printed, with a row for each number of callers.
func (f Figures) rls() (string, error) {
	rates := map[string]map[string]string{} // rates by number of callers and server
	var callers []string
	for line := range strings.Lines(f.servers) {
		fields := strings.Fields(strings.ReplaceAll(line, "sluice, Redis", "redis"))
		if len(fields) != 6 || fields[0] == "server" {
			continue
		}
		if rates[fields[1]] == nil {
			callers = append(callers, fields[1])
			rates[fields[1]] = map[string]string{}
		}
		rate, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			continue // the line of a server without Redis
		}
		rates[fields[1]][fields[0]] = digits(rate, 5)
		if fields[0] == "sluice" || fields[0] == "redis" {
			times, err := strconv.ParseFloat(strings.TrimSuffix(fields[5], "x"), 64)
			if err != nil {
				return "", err
			}
			rates[fields[1]][fields[0]] += fmt.Sprintf(" (%.1f times)", times)
		}
	}
	var b strings.Builder
	b.WriteString("| callers | stub | envoyproxy/ratelimit | `sluice serve` | `sluice serve --redis` |\n|--:|--:|--:|--:|--:|\n")
	for _, c := range callers {
		r := rates[c]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c, r["stub"], r["reference"], r["sluice"], r["redis"])
	}
	return b.String(), nil
}
