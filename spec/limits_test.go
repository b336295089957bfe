package spec_test

import (
	"encoding/json"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func limits(t *testing.T, s string) spec.Limits {
	t.Helper()
	ls, err := spec.ParseLimits(s)
	require.NoError(t, err)
	return ls
}

func newLimiter(t *testing.T, s string) core.Limiter {
	t.Helper()
	l, err := limits(t, s).New("old")
	require.NoError(t, err)
	return l
}

// partsOf are the limiters of a chain, or the only one.
func partsOf(l core.Limiter) []core.Limiter {
	if c, ok := l.(*core.ChainedLimiter); ok {
		return c.Limiters()
	}
	return []core.Limiter{l}
}

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]string{
		"100/s":                  "100/s",
		"unlimited":              "unlimited",
		"10/s,20/min burst 5":    "10/s, 20/min burst 5",
		"concurrency 5,100/s":    "concurrency 5, 100/s",
		" 10/s , concurrency 3 ": "10/s, concurrency 3",
		"fixed 1000/day tz Europe/Berlin, concurrency 5 queue 2 fair-share, paused": "fixed 1000/day tz Europe/Berlin, concurrency 5 queue 2 fair-share, paused",
	} {
		ls := limits(t, text)
		require.Equal(t, want, ls.String())
		require.Equal(t, ls, limits(t, ls.String()))
	}
	require.Equal(t, "unlimited", spec.Limits{}.String())
	for text, want := range map[string]string{
		"":                  `spec: no words, want a limit such as 100/s`,
		"10/s,":             `spec: "10/s,": want a limit before and after each comma`,
		", 10/s":            `spec: ", 10/s": want a limit before and after each comma`,
		"10/s, , blocked":   `spec: "10/s, , blocked": want a limit before and after each comma`,
		"10/s, 20/x":        `spec: "20/x": unknown time "x", want s, min, h, day or a duration such as 250ms`,
		"10/s, 10":          `spec: "10": no time, want an amount such as 10/s`,
		"1,000/s":           `spec: "1": no time, want an amount such as 1/s; a comma separates limits, so write 1000 or 1_000`,
		"concurrency 1,000": `spec: "000": want at least 1; a comma separates limits, so write 1000 or 1_000`,
	} {
		got, err := spec.ParseLimits(text)
		require.EqualError(t, err, want)
		require.Nil(t, got)
	}
}

// An error leaves the value unchanged.
func TestLimitsAsText(t *testing.T) {
	var config struct{ Limits spec.Limits }
	require.NoError(t, json.Unmarshal([]byte(`{"Limits": "10/s, concurrency 5"}`), &config))
	before := config.Limits
	require.ErrorContains(t, json.Unmarshal([]byte(`{"Limits": "10/s, odd"}`), &config), `"odd": unknown kind`)
	require.Equal(t, before, config.Limits)
	b, err := json.Marshal(config)
	require.NoError(t, err)
	require.JSONEq(t, `{"Limits": "10/s, concurrency 5"}`, string(b))
	_, err = spec.Limits{{Permits: 1}, {Kind: 99}}.MarshalText()
	require.ErrorContains(t, err, "spec: Limit.Permits = 1, want 0 for kind unlimited")
	require.ErrorContains(t, err, "spec: Limit.Kind = 99")
	_, err = spec.Limits{{Kind: spec.FixedWindow, Permits: 1, Calendar: core.Daily(time.FixedZone("", 60))}}.MarshalText()
	require.ErrorContains(t, err, "want a time zone with an IANA name")

	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var ls spec.Limits
	flags.TextVar(&ls, "limits", before, "how fast")
	require.Equal(t, before, ls)
	require.Equal(t, "10/s, concurrency 5", flags.Lookup("limits").DefValue)
	require.NoError(t, flags.Parse([]string{"-limits", "blocked"}))
	require.Equal(t, spec.Limits{{Kind: spec.Blocked}}, ls)
	require.Error(t, flags.Parse([]string{"-limits", "blocked, 5/x"}))
	require.Equal(t, spec.Limits{{Kind: spec.Blocked}}, ls)
}

func TestOptions(t *testing.T) {
	for _, text := range []string{"100/s", "8MiB/s burst 1MiB", "fixed 3/h", "fixed 3/month", "sliding 3/h segments 4", "concurrency 5 queue 2"} {
		o, err := parse(t, text).Options("x")
		require.NoError(t, err)
		l, err := parse(t, text).New("x")
		require.NoError(t, err)
		require.Equal(t, optionsOf(t, l), any(o), text)
	}
	for _, text := range []string{"unlimited", "blocked", "paused"} {
		_, err := parse(t, text).Options("x")
		require.EqualError(t, err, "spec: kind "+text+" has no options, want bucket, fixed, sliding or concurrency")
	}
	_, err := spec.Limit{Kind: spec.TokenBucket}.Options("x")
	require.ErrorContains(t, err, "Limit.Permits = 0")
}

// Limiters that have one of the limits stay, then those of its kind; the others are new. Each string after the
// first says which: the index of the old limiter, or "new".
func TestApply(t *testing.T) {
	for _, c := range []struct {
		before, after string
		stay          []any
	}{
		{"100/s", "100/s", []any{0}},
		{"100/s", "200/s burst 5 queue 3", []any{0}},
		{"100/s", "fixed 100/s", []any{"new"}},
		{"100/s", "100/s, concurrency 5", []any{0, "new"}},
		{"100/s", "concurrency 5, 90/s", []any{"new", 0}},
		{"fixed 9/h, concurrency 5", "concurrency 6, fixed 8/h", []any{1, 0}},
		{"fixed 9/h, concurrency 5", "fixed 9/h, concurrency 6", []any{0, 1}},
		{"fixed 9/h, concurrency 5", "concurrency 5", []any{1}},
		{"10/s, 600/min", "600/min, 10/s", []any{1, 0}}, // each has its limit already
		{"10/s, 600/h", "600/h", []any{1}},
		{"10/s, 600/h", "20/s", []any{0}},
		{"10/s", "20/s, 10/s", []any{"new", 0}},
		{"10/s", "20/s, 30/s", []any{0, "new"}},
		{"10/s", "unlimited", []any{"new"}},
		{"unlimited", "unlimited", []any{0}},
		{"unlimited", "unlimited, 10/s", []any{"new"}},
		{"10/s, unlimited", "10/s", []any{0}},
		{"blocked", "blocked", []any{0}},
		{"blocked", "paused", []any{"new"}},
		{"paused, 10/s", "10/s, paused", []any{1, 0}},
	} {
		t.Run(c.before+" to "+c.after, func(t *testing.T) {
			now := newLimiter(t, c.before)
			had := partsOf(now)
			got, err := limits(t, c.after).Apply(now, "new")
			require.NoError(t, err)
			want := limits(t, c.after)
			for i, part := range partsOf(got) {
				if at, stays := c.stay[i].(int); stays {
					require.Same(t, had[at], part)
				} else {
					require.NotContains(t, had, part)
				}
			}
			require.Len(t, partsOf(got), len(c.stay))
			again, err := want.Apply(got, "")
			require.NoError(t, err)
			require.Same(t, got, again, "it has the limits")
		})
	}
}

// What was granted still counts after a change, and the new limits hold.
func TestApplyKeepsGrants(t *testing.T) {
	l := newLimiter(t, "fixed 10/h")
	lease := l.TryAcquire(4)
	chained, err := limits(t, "concurrency 3, fixed 12/h").Apply(l, "new")
	require.NoError(t, err)
	lease.Release()
	require.Equal(t, 3, chained.Available())
	require.Equal(t, 8, l.Available())
	require.Equal(t, "old", l.(*core.FixedWindow).Options().Name)
	require.Equal(t, "new", chained.(*core.ChainedLimiter).Limiters()[0].(*core.ConcurrencyLimiter).Options().Name)
	raised, err := limits(t, "concurrency 30, fixed 12/h").Apply(chained, "new")
	require.NoError(t, err)
	require.Same(t, chained, raised)
	require.Equal(t, 8, raised.Available())
}

// A chain of a limiter, which hides its Close, is the limiter.
func TestApplyOfAChainOfOne(t *testing.T) {
	one, err := core.Chain(newLimiter(t, "10/s"))
	require.NoError(t, err)
	got, err := limits(t, "20/s").Apply(one, "")
	require.NoError(t, err)
	require.Same(t, one, got)
	require.Equal(t, 20, one.Statistics().Limit)
}

func TestApplyWithoutALimiter(t *testing.T) {
	var bucket *core.TokenBucket
	for _, now := range []core.Limiter{nil, bucket} {
		l, err := limits(t, "10/s, concurrency 5").Apply(now, "x")
		require.NoError(t, err)
		require.Len(t, partsOf(l), 2)
		l, err = parse(t, "10/s").Apply(now, "x")
		require.NoError(t, err)
		require.Equal(t, "x", l.(*core.TokenBucket).Options().Name)
		l, err = spec.Limits{}.Apply(now, "x")
		require.NoError(t, err)
		require.True(t, l.TryAcquire(1e9).Acquired())
	}
}

// On an error nothing has changed: also if it is found at the last part of a chain.
func TestApplyFails(t *testing.T) {
	now := newLimiter(t, "10/s, concurrency 5")
	parts := partsOf(now)
	options := func() []any { return []any{optionsOf(t, parts[0]), optionsOf(t, parts[1])} }
	before := options()
	unchanged := func() {
		t.Helper()
		require.Equal(t, before, options())
	}
	_, err := spec.Limits{parse(t, "20/s"), {Kind: spec.Concurrency}}.Apply(now, "")
	require.ErrorContains(t, err, "Limit.Permits = 0")
	unchanged()
	require.NoError(t, parts[1].(*core.ConcurrencyLimiter).Close())
	_, err = limits(t, "20/s, concurrency 6").Apply(now, "")
	require.ErrorIs(t, err, core.ErrClosed)
	unchanged()
	require.Equal(t, core.Statistics{Limit: 5, Available: 5}, now.(core.Reporter).Statistics(), "nothing was counted")
}

func TestApplyAfterClose(t *testing.T) {
	for _, text := range []string{"10/s", "fixed 10/s", "sliding 10/s", "concurrency 5", "unlimited", "blocked", "paused", "10/s, concurrency 5"} {
		for _, after := range []string{text, "fixed 7/h", "unlimited"} {
			l := newLimiter(t, text)
			require.NoError(t, l.(io.Closer).Close())
			_, err := limits(t, after).Apply(l, "")
			require.ErrorIs(t, err, core.ErrClosed, "%s to %s", text, after)
		}
	}
}

func TestSetLimits(t *testing.T) {
	s := core.NewSwitch(nil)
	require.NoError(t, limits(t, "fixed 10/h").Set(s, "api"))
	require.True(t, s.TryAcquire(3).Acquired())
	require.NoError(t, limits(t, "fixed 10/h, concurrency 4").Set(s, "api"))
	require.Equal(t, 4, s.Available())
	require.NoError(t, limits(t, "fixed 20/h").Set(s, "api"))
	require.Equal(t, 17, s.Available())
	require.ErrorContains(t, spec.Limits{{Kind: 99}}.Set(s, "api"), "Limit.Kind = 99")
	require.Equal(t, 17, s.Available())
	require.ErrorIs(t, limits(t, "10/s").Set(nil, "api"), spec.ErrKind)
	require.NoError(t, s.Close())
	for _, text := range []string{"fixed 20/h", "fixed 30/h", "unlimited", "10/s, concurrency 5"} {
		require.ErrorIs(t, limits(t, text).Set(s, "api"), core.ErrClosed, text)
	}
}

// FuzzParseLimits: nothing panics, what parses is valid, and its String parses to the same.
func FuzzParseLimits(f *testing.F) {
	for _, s := range []string{"10/s, concurrency 5", "1,000/s", ",", "unlimited,unlimited", "blocked, paused", "fixed 1/day tz UTC,8MiB/s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ls, err := spec.ParseLimits(s)
		if err != nil {
			require.Nil(t, ls)
			return
		}
		again, err := spec.ParseLimits(ls.String())
		require.NoError(t, err)
		require.Equal(t, ls, again)
		l, err := ls.New("")
		require.NoError(t, err)
		same, err := ls.Apply(l, "")
		require.NoError(t, err)
		require.Same(t, l, same)
	})
}

// Apply, Update and Set look whether a limiter is closed. That is no request, so nothing is counted.
func TestApplyCountsNothing(t *testing.T) {
	for _, text := range []string{"10/s", "fixed 10/s", "sliding 10/s", "concurrency 5", "unlimited", "blocked", "paused", "10/s, blocked"} {
		l := newLimiter(t, text)
		s := core.NewSwitch(l)
		before := l.(core.Reporter).Statistics()
		for range 3 {
			_, err := limits(t, text).Apply(l, "")
			require.NoError(t, err)
			require.NoError(t, limits(t, text).Set(s, ""))
			if ls := limits(t, text); len(ls) == 1 {
				require.NoError(t, ls[0].Update(l))
			}
		}
		require.Equal(t, before, l.(core.Reporter).Statistics(), text)
		require.Equal(t, before, s.Statistics(), text)
		_, err := limits(t, "concurrency 7").Apply(l, "")
		require.NoError(t, err)
		require.Equal(t, text != "concurrency 5", before == l.(core.Reporter).Statistics(), text)
	}
}
