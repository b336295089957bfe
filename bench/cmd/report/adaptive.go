package main

// The measurements of resilience and adaptive, and their lines of the table.

func adaptiveMeasurements() []measurement {
	return []measurement{
		{name: "execute", folder: "resilience", bench: "Execute"},
		{name: "execute-at-a-rate", folder: "resilience", bench: "ExecuteAtARate"},
		{name: "adaptive", folder: "adaptive", bench: "GrantRelease"},
	}
}

func adaptiveGoals() []line {
	return []line{
		{work: "a function under a strategy, Do", measurement: "execute", ours: "sluice-do", rival: "failsafe-bulkhead", goal: both(0.30)},
		{work: "a function under a strategy, Execute", measurement: "execute", ours: "sluice-execute", rival: "failsafe-bulkhead", goal: both(0.30)},
		{work: "a function under a strategy, Do", measurement: "execute", ours: "sluice-do", rival: "bare-limiter", goal: both(30), more: true},
		{work: "a function under a strategy, Execute", measurement: "execute", ours: "sluice-execute", rival: "bare-limiter", goal: both(30), more: true},
		{work: "a function under a rate", measurement: "execute-at-a-rate", ours: ours, rival: "failsafe-ratelimiter", goal: both(0.30)},
		{work: "adaptive limiter, grant and release", measurement: "adaptive", ours: ours, rival: "failsafe-adaptive", goal: both(0.50)},
		{work: "adaptive limiter, grant and release", measurement: "adaptive", ours: ours, rival: "core-fixed", goal: both(100), more: true},
	}
}
