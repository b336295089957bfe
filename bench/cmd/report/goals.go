package main

import (
	"fmt"
	"strconv"
)

// line is a line of the table: ours against one rival, and the goal.
type line struct {
	work        string
	measurement string
	ours, rival string // impl
	goal        goal
	allocs      int    // the goal for allocations per operation, at most; anyAllocs: none
	more        bool   // the goal is by how many ns ours may be more than the rival's, not a ratio
	unit        string // "": ns/op, and the goal is a ratio; else the goal is an amount of ours
}

const anyAllocs = -1

// goal is the most that is allowed on each kind of processor. 0 means that there is no goal.
type goal struct{ intel, amd float64 }

func both(most float64) goal { return goal{most, most} }

func (g goal) on(k kind) float64 {
	switch k {
	case intel:
		return g.intel
	case amd:
		return g.amd
	default:
		return 0
	}
}

// wanted returns the goal on a kind of processor for a cell of the table.
func (l line) wanted(k kind) string {
	most := l.goal.on(k)
	switch {
	case most == 0:
		return ""
	case l.unit != "":
		return strconv.FormatFloat(most, 'f', 0, 64) + l.suffix()
	case l.more:
		return fmt.Sprintf("+%.0f ns", most)
	default:
		return fmt.Sprintf("%.2f", most)
	}
}

// suffix is the unit of an amount of ours.
func (l line) suffix() string {
	if l.unit == longestCall {
		return " ns"
	}
	return " B"
}

// goals are the lines of the table, in its order.
func goals() []line {
	var ls []line
	ls = append(ls, concurrencyGoals()...)
	ls = append(ls, bucketGoals()...)
	ls = append(ls, viewGoals()...)
	ls = append(ls, idleGoals()...)
	ls = append(ls, channelGoals()...)
	ls = append(ls, oneProcessorGoals()...)
	ls = append(ls, pipeGoals()...)
	ls = append(ls, partitionGoals()...)
	ls = append(ls, httpGoals()...)
	ls = append(ls, grpcGoals()...)
	ls = append(ls, adaptiveGoals()...)
	ls = append(ls, line{work: "throttled 32 KiB write that need not wait", measurement: "throttled-write", ours: ours, rival: timeRate, goal: both(0.70)})
	return append(ls, poolGoals()...)
}

func concurrencyGoals() []line {
	one, all := goal{0.85, 0.95}, goal{0.90, 1.00}
	ls := []line{
		{work: "concurrency limiter, nothing else held, TryAcquire + Release", measurement: "try", ours: ours, rival: semaphore, goal: one},
		{work: "TryAcquire + Release from all cores", measurement: "try-all-cores", ours: ours, rival: semaphore, goal: all},
		{work: "Acquire + Release with a context that can be cancelled", measurement: "acquire", ours: ours, rival: semaphore, goal: all},
		{work: "Acquire + Release with context.Background", measurement: "acquire-background", ours: ours, rival: semaphore, goal: all},
		{work: "hand-over, 16 goroutines on 1 permit", measurement: "handover-16", ours: ours, rival: semaphore, goal: both(1.00)},
		{work: "hand-over, 1,000 goroutines on 2 permits", measurement: "handover-1000", ours: ours, rival: semaphore, goal: both(1.00)},
	}
	for _, n := range heldNumbers {
		work := "TryAcquire + Release, " + n + " held"
		ls = append(ls,
			line{work: work, measurement: "held-" + n, ours: ours, rival: semaphore, goal: one},
			line{work: work + ", from all cores", measurement: "held-all-cores-" + n, ours: ours, rival: semaphore, goal: all},
		)
	}
	return ls
}

// bucketGoals are those of buckets and windows. A bucket that is refilled every second gets 1e9 tokens.
func bucketGoals() []line {
	quick, cores := goal{0.50, 0.45}, both(0.60)
	var ls []line
	for _, refill := range []string{"1ns", "1ms", "1s"} {
		ls = append(ls,
			line{work: "token bucket, TryAcquire, refilled every " + refill, measurement: "rate-try-" + refill, ours: ours, rival: timeRate, goal: quick},
			line{work: "token bucket, TryAcquire from all cores, refilled every " + refill, measurement: "rate-all-cores-" + refill, ours: ours, rival: timeRate, goal: cores},
			line{work: "token bucket, Acquire that need not wait, refilled every " + refill, measurement: "rate-acquire-" + refill, ours: ours, rival: timeRate, goal: quick},
		)
	}
	return append(ls,
		line{work: "token bucket, rejected", measurement: "rate-refused", ours: ours, rival: timeRate, goal: quick},
		line{work: "fixed window, rejected", measurement: "rate-refused", ours: "sluice-fixed", rival: timeRate, goal: quick},
		line{work: "sliding window, rejected", measurement: "rate-refused", ours: "sluice-sliding", rival: timeRate, goal: quick},
		line{work: "fixed window, TryAcquire", measurement: "window", ours: "sluice-fixed", rival: timeRate, goal: quick},
		line{work: "sliding window, TryAcquire", measurement: "window", ours: "sluice-sliding", rival: timeRate, goal: quick},
	)
}

func viewGoals() []line {
	var ls []line
	for _, m := range []struct{ name, method string }{{"available", "Available"}, {"statistics", "Statistics"}} {
		for _, l := range []struct{ impl, limiter string }{
			{"sluice-bucket", "token bucket"}, {"sluice-fixed", "fixed window"}, {"sluice-sliding", "sliding window"},
		} {
			ls = append(ls, line{work: l.limiter + ", " + m.method + " to Tokens", measurement: m.name, ours: l.impl, rival: timeRate, goal: both(0.65)})
		}
	}
	return ls
}

func idleGoals() []line {
	var ls []line
	for _, l := range []struct{ impl, limiter string }{
		{"sluice-concurrency", "concurrency limiter"},
		{"sluice-bucket", "token bucket"},
		{"sluice-fixed", "fixed window"},
		{"sluice-sliding", "sliding window"},
	} {
		ls = append(ls, line{work: "idle " + l.limiter, measurement: "idle", ours: l.impl, goal: both(idleBytes), unit: heap})
	}
	return ls
}

func channelGoals() []line {
	var ls []line
	for _, c := range []struct {
		pairs                             string
		native, selected, guards, bounded float64
	}{{"1", 1.50, 0.50, 0.80, 1.15}, {"4", 1.50, 0.70, 0.80, 1.50}, {"64", 2.00, 0.80, 0.60, 2.00}} {
		name, setting := "channel-"+c.pairs, " of 128, "+c.pairs+":"+c.pairs
		work := "channel with a concurrency limiter" + setting
		ls = append(ls,
			line{work: work, measurement: name, ours: ours, rival: "native", goal: both(c.native)},
			line{work: work, measurement: name, ours: ours, rival: "native-select", goal: both(c.selected)},
			line{work: work, measurement: name, ours: ours, rival: guarded, goal: both(c.guards)},
			line{work: "channel.Bounded" + setting, measurement: name, ours: "sluice-bounded", rival: "native", goal: both(c.bounded)},
		)
	}
	return ls
}

func oneProcessorGoals() []line {
	return []line{
		{work: "channel with a concurrency limiter of 128, 4:4, one processor", measurement: "channel-one-processor", ours: ours, rival: guarded, goal: both(0.80)},
		{work: "pipe of 64 KiB, writes of 512 B, one processor", measurement: "pipe-one-processor", ours: ours, rival: "io.Pipe", goal: both(0.25)},
		{work: "worker pool, empty task, one processor", measurement: "pool-one-processor", ours: ours, rival: "errgroup", goal: both(0.30)},
		{work: "throttled 32 KiB write, one processor", measurement: "throttled-write-one-processor", ours: ours, rival: timeRate, goal: both(0.60)},
	}
}

func pipeGoals() []line {
	var ls []line
	for _, p := range []struct {
		size, work string
		goal       float64
	}{{"1", "1 B", 0.15}, {"512", "512 B", 0.20}, {"4096", "4 KiB", 0.50}, {"32768", "32 KiB", 1.10}, {"262144", "256 KiB", 1.10}} {
		ls = append(ls, line{work: "pipe of 64 KiB, writes of " + p.work, measurement: "pipe-" + p.size, ours: ours, rival: "io.Pipe", goal: both(p.goal)})
	}
	return ls
}

// poolGoals are those of worker.Pool, and of its Group with and without a queue.
func poolGoals() []line {
	return []line{
		{work: "worker pool, empty task", measurement: "pool", ours: ours, rival: "pond", goal: goal{0.60, 0.80}},
		{work: "worker pool, empty task", measurement: "pool", ours: ours, rival: "errgroup", goal: both(0.30)},
		{work: "worker pool, empty task", measurement: "pool", ours: ours, rival: "ants", goal: both(0.25)},
		{work: "worker group, empty task", measurement: "pool", ours: "sluice-group", rival: "errgroup", goal: both(0.30), allocs: anyAllocs},
		{work: "worker group of a pool without a queue, empty task", measurement: "pool", ours: "sluice-group-unqueued", rival: "errgroup", allocs: anyAllocs},
		{work: "worker group of a pool without a queue, ten empty tasks", measurement: "group-of-ten", ours: ours, rival: "errgroup", goal: both(1.50), allocs: anyAllocs},
	}
}
