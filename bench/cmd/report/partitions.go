package main

// The measurements of partition, and their lines of the table.

const (
	keyHeap     = "heap-B/key"
	keyBytes    = 200 + 16 // beyond the key, whose header is 16, and the limiter
	longestCall = "longest-ns"
	longestGoal = 1_000_000
)

func partitionMeasurements() []measurement {
	const folder = "partitions"
	return []measurement{
		{name: "key-1", folder: folder, bench: "LiveKey", at: "keys=1"},
		{name: "key-1000", folder: folder, bench: "LiveKey", at: "keys=1000"},
		{name: "key-all-cores", folder: folder, bench: "LiveKeyAllCores"},
		{name: "key-new", folder: folder, bench: "NewKey"},
		{name: "key-memory", folder: folder, bench: "KeyMemory"},
		{name: "key-grow", folder: folder, bench: "Grow"},
		{name: "key-hostile", folder: folder, bench: "HostileKeys"},
	}
}

func partitionGoals() []line {
	var ls []line
	for _, m := range []struct{ name, work string }{
		{"key-1", "limiter of a live key, TryAcquire"},
		{"key-1000", "limiter of a live key of 1000, TryAcquire"},
		{"key-all-cores", "limiter of a live key of 1000, TryAcquire from all cores"},
	} {
		ls = append(ls,
			line{work: m.work, measurement: m.name, ours: ours, rival: "sync.Map+core", goal: both(1.50)},
			line{work: m.work, measurement: m.name, ours: ours, rival: "map+RWMutex+xtime-rate", goal: both(0.70)},
			line{work: m.work, measurement: m.name, ours: ours, rival: "sethvargo", goal: both(0.35)},
			line{work: m.work, measurement: m.name, ours: ours, rival: "throttled", goal: both(1.00)},
		)
	}
	return append(ls,
		line{work: "a live key of a million, beyond key and limiter", measurement: "key-memory", ours: ours, goal: both(keyBytes), unit: keyHeap},
		line{work: "longest single call on the way to a million keys, best of ten runs", measurement: "key-grow", ours: ours, goal: both(longestGoal), unit: longestCall},
	)
}
