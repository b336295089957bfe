package main

// goals are the lines of the table.
func goals() []line {
	ls := []line{
		{work: "concurrency limiter, nothing else held, TryAcquire + Release", measurement: "try", ours: ours, rival: semaphore, goal: 0.80, noAlloc: true},
		{work: "TryAcquire + Release from all cores", measurement: "try-all-cores", ours: ours, rival: semaphore, goal: 1.00},
		{work: "Acquire(ctx) + Release", measurement: "acquire", ours: ours, rival: semaphore, goal: 0.90},
		{work: "Acquire + Release with context.Background", measurement: "acquire-background", ours: ours, rival: semaphore, goal: 0.90},
		{work: "16 goroutines on 1 permit, through the queue", measurement: "handover-16", ours: ours, rival: semaphore, goal: 0.70, noAlloc: true},
		{work: "1000 waiters on 2 permits", measurement: "handover-1000", ours: ours, rival: semaphore, goal: 0.70, noAlloc: true},
	}
	for _, n := range heldNumbers {
		ls = append(ls,
			line{work: "the same while " + n + " others are held", measurement: "held-" + n, ours: ours, rival: semaphore, goal: 1.00, noAlloc: true},
			line{work: "the same while " + n + " others are held, from all cores", measurement: "held-all-cores-" + n, ours: ours, rival: semaphore, goal: 1.00},
		)
	}
	for _, r := range []string{"1ns", "1ms", "1s"} {
		ls = append(ls,
			line{work: "token bucket, TryAcquire, refilled every " + r, measurement: "rate-try-" + r, ours: ours, rival: timeRate, goal: 0.45, noAlloc: true},
			line{work: "token bucket, TryAcquire from all cores, refilled every " + r, measurement: "rate-all-cores-" + r, ours: ours, rival: timeRate, goal: 0.50},
			line{work: "token bucket, Acquire that need not wait, refilled every " + r, measurement: "rate-acquire-" + r, ours: ours, rival: timeRate, goal: 0.50},
		)
	}
	ls = append(ls,
		line{work: "token bucket, refused", measurement: "rate-refused", ours: ours, rival: timeRate, goal: 0.50},
		line{work: "fixed window, TryAcquire", measurement: "window", ours: "sluice-fixed", rival: timeRate, goal: 0.50, noAlloc: true},
		line{work: "sliding window, TryAcquire", measurement: "window", ours: "sluice-sliding", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "token bucket, Available to Tokens", measurement: "available", ours: "sluice-bucket", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "fixed window, Available to Tokens", measurement: "available", ours: "sluice-fixed", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "sliding window, Available to Tokens", measurement: "available", ours: "sluice-sliding", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "token bucket, Statistics to Tokens", measurement: "statistics", ours: "sluice-bucket", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "fixed window, Statistics to Tokens", measurement: "statistics", ours: "sluice-fixed", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "sliding window, Statistics to Tokens", measurement: "statistics", ours: "sluice-sliding", rival: timeRate, goal: 0.60, noAlloc: true},
		line{work: "idle concurrency limiter", measurement: "idle", ours: "sluice-concurrency", goal: idleBytes, unit: heap},
		line{work: "idle token bucket", measurement: "idle", ours: "sluice-bucket", goal: idleBytes, unit: heap},
		line{work: "idle fixed window", measurement: "idle", ours: "sluice-fixed", goal: idleBytes, unit: heap},
		line{work: "idle sliding window", measurement: "idle", ours: "sluice-sliding", goal: idleBytes, unit: heap},
	)
	ls = append(ls, channelGoals()...)
	ls = append(ls, pipeGoals()...)
	ls = append(ls, partitionGoals()...)
	ls = append(ls, httpGoals()...)
	ls = append(ls, adaptiveGoals()...)
	return append(ls,
		line{work: "throttled 32 KiB write that need not wait", measurement: "throttled-write", ours: ours, rival: timeRate, goal: 0.60},
		line{work: "worker pool, empty task", measurement: "pool", ours: ours, rival: "pond", goal: 1.00},
		line{work: "worker pool, empty task", measurement: "pool", ours: ours, rival: "errgroup", goal: 0.30},
		line{work: "worker pool, empty task", measurement: "pool", ours: ours, rival: "ants", goal: 0.25},
	)
}

func channelGoals() (ls []line) {
	for _, c := range []struct {
		pairs                    string
		native, selected, guards float64
	}{{"1", 1.50, 0.50, 0.80}, {"4", 1.80, 0.70, 0.80}, {"64", 2.50, 0.80, 0.60}} {
		name, work := "channel-"+c.pairs, "channel of a user's limiter of 128, "+c.pairs+":"+c.pairs
		ls = append(ls,
			line{work: work, measurement: name, ours: ours, rival: "native", goal: c.native},
			line{work: work, measurement: name, ours: ours, rival: "native-select", goal: c.selected},
			line{work: work, measurement: name, ours: ours, rival: guarded, goal: c.guards},
		)
	}
	for _, c := range []struct {
		pairs string
		goal  float64
	}{{"1", 1.10}, {"4", 1.80}, {"64", 3.00}} {
		ls = append(ls, line{work: "channel.Bounded of 128, " + c.pairs + ":" + c.pairs, measurement: "channel-" + c.pairs, ours: "sluice-bounded", rival: "native", goal: c.goal})
	}
	ls = append(ls,
		line{work: "channel of a user's limiter of 128, 4:4, one processor", measurement: "channel-one-processor", ours: ours, rival: guarded, goal: 0.80},
		line{work: "pipe of 64 KiB, writes of 512 B, one processor", measurement: "pipe-one-processor", ours: ours, rival: "io.Pipe", goal: 0.25},
		line{work: "worker pool, empty task, one processor", measurement: "pool-one-processor", ours: ours, rival: "errgroup", goal: 0.30},
		line{work: "throttled 32 KiB write, one processor", measurement: "throttled-write-one-processor", ours: ours, rival: timeRate, goal: 0.60},
	)
	return ls
}

func pipeGoals() (ls []line) {
	for _, p := range []struct {
		size, work string
		goal       float64
	}{{"1", "1 B", 0.15}, {"512", "512 B", 0.25}, {"4096", "4 KiB", 0.40}, {"32768", "32 KiB", 1.00}, {"262144", "256 KiB", 1.10}} {
		ls = append(ls, line{work: "pipe of 64 KiB, writes of " + p.work, measurement: "pipe-" + p.size, ours: ours, rival: "io.Pipe", goal: p.goal})
	}
	return ls
}
