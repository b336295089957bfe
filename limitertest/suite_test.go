package limitertest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/limitertest"
)

// What Run and NoLeaks do to a test that fails is seen from outside: this test binary,
// started again to run one that does.
const failing = "LIMITERTEST_FAILING"

func TestFailing(t *testing.T) {
	if os.Getenv(failing) == "" {
		t.Skip("run by TestRunFailsTheTest")
	}
	t.Run("broken", func(t *testing.T) {
		limitertest.Run(t, limitertest.Config{Limit: limit, QueueLimit: queue, New: mutated(slots, func(m *mutant) {
			m.try = func(n int) core.Lease { return m.Limiter.TryAcquire(max(n, 0)) }
		})})
	})
	t.Run("unclosed", func(t *testing.T) {
		limitertest.Run(t, limitertest.Config{Limit: limit, QueueLimit: queue, New: mutated(slots, func(m *mutant) {
			m.close = func() error { return nil }
		})})
	})
	t.Run("nil", func(t *testing.T) {
		limitertest.Run(t, limitertest.Config{Limit: limit, New: func() core.Limiter { return nil }})
	})
	t.Run("options", func(t *testing.T) { limitertest.Run(t, limitertest.Config{}) })
	t.Run("leak", func(t *testing.T) {
		l := concurrency(0, core.OldestFirst)
		limitertest.NoLeaks(t, l)
		l.TryAcquire(1)
	})
}

func TestRunFailsTheTest(t *testing.T) {
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailing$", "-test.v")
	cmd.Env = append(os.Environ(), failing+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	for _, line := range []string{
		"--- FAIL: TestFailing/broken/requests",
		"acquired true, <nil>, want core.ErrNegativePermits",
		"--- PASS: TestFailing/unclosed/queue",
		"--- FAIL: TestFailing/unclosed/close",
		"--- PASS: TestFailing/unclosed/concurrent_callers",
		"--- SKIP: TestFailing/unclosed/replenishment",
		"--- FAIL: TestFailing/nil/requests",
		"Config.New returned nil",
		"--- FAIL: TestFailing/options",
		"limitertest: Config.New = <nil>, want a function",
		"--- FAIL: TestFailing/leak",
		"1 of 5 permits were not released",
	} {
		require.Contains(t, out.String(), line)
	}
	require.NotContains(t, out.String(), "TestFailing/broken/queue")
}

func TestConfigReportsAllFaults(t *testing.T) {
	c := limitertest.Config{QueueLimit: -1, QueueOrder: 7, Refill: -1, Grain: -1, Gate: func(core.Limiter, bool) {}, Skip: []string{"the weather"}}
	require.EqualError(t, c.Validate(), `limitertest: Config.New = <nil>, want a function
limitertest: Config.Limit = 0, want at least 1
limitertest: Config.QueueLimit = -1, want at least 0
limitertest: Config.QueueOrder = QueueOrder(7), want oldest-first, newest-first or fair-share
limitertest: Config.Limit = 0, want math.MaxInt where there is a Gate
limitertest: Config.Refill = -1ns, want at least 0
limitertest: Config.Grain = -1ns, want at least 0
limitertest: Config.Skip = "the weather", want names of subtests`)
	require.NoError(t, limitertest.Config{New: core.Unlimited, Limit: 1, Skip: limitertest.PartNames()}.Validate())
}

func TestSkipsWhatItIsToldTo(t *testing.T) {
	rule := "close"
	c := limitertest.Config{Limit: limit, Skip: []string{rule}, New: plain(0, core.OldestFirst)}
	require.Equal(t, "Config.Skip", limitertest.Judge(t, c, rule).Skipped)
}

// A limiter that blocks, panics, or leaves goroutines behind is a fault, not the end of
// the tests.
func TestOutlivesTheLimiter(t *testing.T) {
	for name, c := range map[string]struct {
		mutate func(*mutant)
		want   string
	}{
		"a try that blocks": {func(m *mutant) { m.try = func(int) core.Lease { return block() } }, "a call does not return"},
		"a wait that ignores its context": {func(m *mutant) {
			m.acquire = func(context.Context, int) (core.Lease, error) { return block(), nil }
		}, "waits, want it to end"},
		"a try that panics": {func(m *mutant) { m.try = func(int) core.Lease { panic("no permits") } }, "panic: no permits"},
		"a wait that panics": {func(m *mutant) {
			m.acquire = func(context.Context, int) (core.Lease, error) { panic("no queue") }
		}, "panic: no queue"},
		"a goroutine that stays": {func(*mutant) { go block() }, "goroutines stay blocked"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := slots
			claim.New = mutated(slots, c.mutate)
			v := limitertest.Judge(t, claim, "queue")
			require.NotEmpty(t, v.Faults)
			require.ErrorContains(t, v.Faults[0], c.want)
		})
	}
}

// block never returns.
func block() core.Lease {
	<-make(chan struct{})
	return core.Lease{}
}
