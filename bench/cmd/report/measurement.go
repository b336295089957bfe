package main

import "strings"

// measurement is one benchmark, or one of its settings, with all its implementations. It
// runs in a process of its own, once per round, and has a file of its own for each kind of
// processor.
type measurement struct {
	name   string // for -only, and the file's
	folder string // of the package
	bench  string // the benchmark's name less "Benchmark"
	at     string // the setting: part of the names of its results; "": all
	curve  *curve // nil: it is measured for its ratios
}

// curve says what a measurement varies.
type curve struct {
	key   string // of the benchmark's name
	title string
	label string // of the horizontal axis
}

// pattern returns the -test.bench of a measurement.
func (m measurement) pattern() string {
	p := "^Benchmark" + m.bench + "$"
	if m.at != "" {
		p += "/^" + strings.ReplaceAll(m.at, "/", "$/^") + "$"
	}
	return p
}

const (
	ours       = "sluice"
	semaphore  = "xsync-semaphore"
	timeRate   = "xtime-rate"
	guarded    = "xsync-semaphore+native"
	heap       = "heap-B/limiter"
	idleBytes  = 256
	goroutines = "goroutines"
)

// heldNumbers are how many other leases are held while one is taken and released.
var heldNumbers = []string{"1", "10", "1000", "10000", "100000"}

// measurements are all, in the order of the report.
func measurements() []measurement {
	ms := []measurement{
		{name: "try", folder: "limiter", bench: "TryAcquireRelease"},
		{name: "try-all-cores", folder: "limiter", bench: "TryAcquireReleaseAllCores"},
		{name: "acquire", folder: "limiter", bench: "AcquireRelease", at: "ctx=cancellable"},
		{name: "acquire-background", folder: "limiter", bench: "AcquireRelease", at: "ctx=background"},
		{name: "handover-16", folder: "limiter", bench: "HandOver", at: "goroutines=16/permits=1"},
		{name: "handover-1000", folder: "limiter", bench: "HandOver", at: "goroutines=1000/permits=2"},
	}
	for _, n := range heldNumbers {
		ms = append(ms,
			measurement{name: "held-" + n, folder: "limiter", bench: "Held", at: "held=" + n},
			measurement{name: "held-all-cores-" + n, folder: "limiter", bench: "HeldAllCores", at: "held=" + n},
		)
	}
	for _, r := range []string{"1ns", "1ms", "1s"} {
		ms = append(ms, measurement{name: "rate-try-" + r, folder: "limiter", bench: "RateTry", at: "refill=" + r})
	}
	for _, r := range []string{"1ns", "1ms", "1s"} {
		ms = append(ms, measurement{name: "rate-all-cores-" + r, folder: "limiter", bench: "RateTryAllCores", at: "refill=" + r})
	}
	ms = append(ms, measurement{name: "rate-refused", folder: "limiter", bench: "RateRefused"})
	for _, r := range []string{"1ns", "1ms", "1s"} {
		ms = append(ms, measurement{name: "rate-acquire-" + r, folder: "limiter", bench: "RateAcquire", at: "refill=" + r})
	}
	ms = append(ms,
		measurement{name: "window", folder: "limiter", bench: "Window"},
		measurement{name: "available", folder: "limiter", bench: "Available"},
		measurement{name: "statistics", folder: "limiter", bench: "Statistics"},
	)
	for _, n := range []string{"1", "4", "64"} {
		ms = append(ms, measurement{name: "channel-" + n, folder: "channels", bench: "Channel", at: "pairs=" + n})
	}
	for _, n := range []string{"1", "512", "4096", "32768", "262144"} {
		ms = append(ms, measurement{name: "pipe-" + n, folder: "pipes", bench: "Pipe", at: "write=" + n})
	}
	ms = append(ms,
		measurement{name: "channel-one-processor", folder: "channels", bench: "ChannelOneProcessor", at: "pairs=4"},
		measurement{name: "pipe-one-processor", folder: "pipes", bench: "PipeOneProcessor", at: "write=512"},
		measurement{name: "pool-one-processor", folder: "pools", bench: "PoolOneProcessor"},
		measurement{name: "throttled-write-one-processor", folder: "throttled", bench: "ThrottledWriteOneProcessor"},
		measurement{name: "throttled-write", folder: "throttled", bench: "ThrottledWrite"},
		measurement{name: "pool", folder: "pools", bench: "Pool"},
		measurement{name: "group-of-ten", folder: "pools", bench: "GroupOfTen"},
		measurement{name: "pool-round-trip", folder: "pools", bench: "PoolRoundTrip"},
		measurement{name: "idle", folder: memoryFolder, bench: "Idle"},
		measurement{name: "waiters", folder: memoryFolder, bench: "Waiters"},
	)
	ms = append(ms, partitionMeasurements()...)
	ms = append(ms, httpMeasurements()...)
	ms = append(ms, grpcMeasurements()...)
	ms = append(ms, adaptiveMeasurements()...)
	return append(ms, curves()...)
}

// memoryFolder is the package whose benchmarks measure once.
const memoryFolder = "memory"

func curves() []measurement {
	return []measurement{
		{"try-goroutines", "limiter", "TryAcquireReleaseGoroutines", "", &curve{goroutines, "One concurrency limiter, from many goroutines", "goroutines"}},
		{"rate-goroutines", "limiter", "RateTryGoroutines", "", &curve{goroutines, "One rate limiter, from many goroutines", "goroutines"}},
		{"handover-goroutines", "limiter", "HandOverGoroutines", "", &curve{goroutines, "Hand-over of one permit through the queue", "goroutines"}},
		{"queue-serve", "limiter", "QueueServe", "", &curve{"queue", "Serving the oldest of a queue", "waiters"}},
		{"queue-cancel", "limiter", "QueueCancel", "", &curve{"queue", "Cancelling anywhere in a queue", "waiters"}},
		{"queue-evict", "limiter", "QueueEvict", "", &curve{"queue", "Evicting the oldest of a full queue", "waiters"}},
		{"many-limiters", "limiter", "ManyLimiters", "", &curve{"limiters", "One after the other of many limiters", "limiters"}},
		{"channel-goroutines", "channels", "ChannelGoroutines", "", &curve{"pairs", "A channel of 128 places", "senders, and as many receivers"}},
		{"channel-weight", "channels", "ChannelWeight", "", &curve{"weight", "A channel bounded by weight, 128 items", "permits per item"}},
		{"pipe-write-size", "pipes", "PipeWriteSize", "", &curve{"write", "A pipe of 64 KiB, read 64 KiB at a time", "bytes per write"}},
		{"pipe-read-size", "pipes", "PipeReadSize", "", &curve{"read", "A pipe of 64 KiB, written 32 KiB at a time", "bytes of the reader's buffer"}},
		{"throttled-write-size", "throttled", "ThrottledWriteSize", "", &curve{"write", "A throttled write that need not wait", "bytes per write"}},
		{"pool-workers", "pools", "PoolWorkers", "", &curve{"workers", "An empty task in a worker pool", "workers"}},
	}
}
