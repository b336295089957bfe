package spec_test

import (
	"encoding/json"
	"flag"
	"fmt"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func ExampleParse() {
	l, err := spec.Parse("8MiB/s burst 1MiB queue 20")
	fmt.Println(l.Kind, l.Permits, l.Per, l.Burst, l.Queue, err)
	_, err = spec.Parse("100/x")
	fmt.Println(err)
	// Output:
	// bucket 8388608 1s 1048576 20 <nil>
	// spec: "100/x": unknown time "x", want s, min, h, day or a duration such as 250ms
}

func ExampleLimit_New() {
	limit, _ := spec.Parse("bucket 5000/h burst 2")
	l, err := limit.New("api")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.TryAcquire(2).Acquired(), l.TryAcquire(1).Acquired())
	// Output: true false
}

// A limit that is read again while the limiter is in use.
func ExampleLimit_Update() {
	before, _ := spec.Parse("concurrency 1")
	l, _ := before.New("jobs")
	lease := l.TryAcquire(1)
	after, _ := spec.Parse("concurrency 3")
	fmt.Println(after.Update(l), l.Available())
	lease.Release()
	rate, _ := spec.Parse("10/s")
	fmt.Println(rate.Update(l))
	// Output:
	// <nil> 2
	// spec: wrong kind of limiter: *core.ConcurrencyLimiter, want bucket
}

// Several limits that all apply, from one line.
func ExampleParseLimits() {
	limits, err := spec.ParseLimits("fixed 1000/day tz UTC, concurrency 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limits.New("exports")
	if err != nil {
		fmt.Println(err)
		return
	}
	first, second, third := l.TryAcquire(1), l.TryAcquire(1), l.TryAcquire(1)
	fmt.Println(first.Acquired(), second.Acquired(), third.Acquired())
	fmt.Println(limits)
	// Output:
	// true true false
	// fixed 1000/day tz UTC, concurrency 2
}

// A limit of another kind comes beside one that stays. What was granted still counts.
func ExampleLimits_Apply() {
	before, _ := spec.ParseLimits("fixed 1000/day")
	l, _ := before.New("exports")
	l.TryAcquire(10)
	after, _ := spec.ParseLimits("concurrency 5, fixed 2000/day")
	changed, err := after.Apply(l, "exports")
	fmt.Println(changed == l, err)
	for _, part := range changed.(*core.ChainedLimiter).Limiters() {
		fmt.Println(part.Available())
	}
	// Output:
	// false <nil>
	// 5
	// 1990
}

// A Switch follows a configuration: requests that wait move with it.
func ExampleLimits_Set() {
	s := core.NewSwitch(nil)
	for _, text := range []string{"10/s", "20/s burst 5, concurrency 3", "paused"} {
		limits, err := spec.ParseLimits(text)
		if err == nil {
			err = limits.Set(s, "api")
		}
		fmt.Println(s.Available(), err)
	}
	// Output:
	// 10 <nil>
	// 3 <nil>
	// 0 <nil>
}

// The options of a limit, to change what the text does not have.
func ExampleLimit_Options() {
	limit, _ := spec.Parse("fixed 10/h")
	o, err := limit.Options("api")
	fmt.Println(o.(core.FixedWindowOptions).PermitLimit, err)
	blocked, _ := spec.Parse("blocked")
	_, err = blocked.Options("api")
	fmt.Println(err)
	// Output:
	// 10 <nil>
	// spec: kind blocked has no options, want bucket, fixed, sliding or concurrency
}

func ExampleLimit_String() {
	fmt.Println(spec.Limit{Kind: spec.Concurrency, Permits: 10, Order: core.NewestFirst})
	// Output: concurrency 10 newest-first
}

// As a flag.
func ExampleLimit_UnmarshalText_flag() {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	limit := spec.Limit{Kind: spec.Unlimited}
	flags.TextVar(&limit, "limit", limit, "how fast")
	_ = flags.Parse([]string{"-limit", "fixed 1000/day"})
	fmt.Println(limit.Kind, limit.Permits, limit.Per)
	// Output: fixed 1000 24h0m0s
}

// In configuration.
func ExampleLimit_UnmarshalText() {
	var config struct{ Limits map[string]spec.Limit }
	err := json.Unmarshal([]byte(`{"Limits": {"ann": "100/s", "others": "sliding 10/min segments 6"}}`), &config)
	fmt.Println(config.Limits["ann"], err)
	fmt.Println(config.Limits["others"])
	// Output:
	// 100/s <nil>
	// sliding 10/min segments 6
}

func ExampleLimit_MarshalText() {
	b, err := json.Marshal(map[string]spec.Limit{"ann": {Kind: spec.SlidingWindow, Permits: 5, Per: 1e9}})
	fmt.Println(string(b), err)
	// Output: {"ann":"sliding 5/s"} <nil>
}

func ExampleKind_String() {
	fmt.Println(spec.TokenBucket, spec.Unlimited)
	// Output: bucket unlimited
}
