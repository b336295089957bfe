package worker_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
)

// crashes are calls whose task panics, or whose limiter does, in a process of their own.
var crashes = map[string]func(p func(core.Limiter) *worker.Pool){
	"Submit": func(pool func(core.Limiter) *worker.Pool) {
		p := pool(core.Unlimited())
		_ = p.Submit(context.Background(), explodes)
		_ = p.Wait(context.Background())
	},
	"Do": func(pool func(core.Limiter) *worker.Pool) {
		_, _ = worker.Do(context.Background(), pool(core.Unlimited()), func(ctx context.Context) (int, error) {
			return 0, explodes(ctx)
		})
	},
	"Group": func(pool func(core.Limiter) *worker.Pool) {
		g := pool(core.Unlimited()).Group(context.Background())
		g.Go(explodes)
		_ = g.Wait()
	},
	"Map": func(pool func(core.Limiter) *worker.Pool) {
		results := worker.Map(context.Background(), pool(core.Unlimited()), upTo(1), func(ctx context.Context, _ int) (int, error) {
			return 0, explodes(ctx)
		})
		results(func(int, error) bool { return true })
	},
	"release": func(pool func(core.Limiter) *worker.Pool) {
		p := pool(releases{core.Unlimited()})
		_ = p.Submit(context.Background(), nothing)
		_ = p.Wait(context.Background())
		select {} // the error may come before the crash
	},
}

func explodes(context.Context) error { panic("odd") }

// Without recovery a panic ends the process, and the traceback shows the function that panicked. No call returns before.
func TestWithoutPanicRecovery(t *testing.T) {
	const which = "SLUICE_TEST_CRASH"
	if crash := crashes[os.Getenv(which)]; crash != nil {
		crash(func(l core.Limiter) *worker.Pool {
			return core.Must(worker.New(worker.Options{Limiter: l, Queue: 1, WithoutPanicRecovery: true}))
		})
		os.Exit(0)
	}
	for name := range crashes {
		t.Run(name, func(t *testing.T) {
			self := exec.Command(os.Args[0], "-test.run=^TestWithoutPanicRecovery$")
			self.Env = append(os.Environ(), which+"="+name)
			out, err := self.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, 2, exit.ExitCode(), "%s", out)
			require.Contains(t, string(out), "panic: odd")
			culprit := "worker_test.explodes"
			if name == "release" {
				culprit = "worker_test.releases"
			}
			require.Contains(t, string(out), culprit)
		})
	}
	_, err := worker.New(worker.Options{
		Limiter: core.Unlimited(), WithoutPanicRecovery: true, OnPanic: func(any, []byte) {},
	})
	require.EqualError(t, err, "worker: Options.OnPanic has no effect with WithoutPanicRecovery")
}
