package worker_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/worker"
)

// A task costs no memory of its own: neither when it is admitted immediately, nor when it is
// queued and a worker gets its lease, whether it was given to Submit or to a Group.
func TestTasksAllocateNothing(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"admitted": {}, "queued": {Queue: 1 << 12}, "workers": {Workers: 64}, "group": {Queue: 1 << 12},
	} {
		t.Run(name, func(t *testing.T) {
			const tasks = 1000
			o.Limiter = concurrency(t, 1<<12)
			if o.Queue > 0 {
				o.Limiter = concurrency(t, 1)
			}
			p := newPool(t, o)
			ctx := t.Context()
			round := func() {
				if name == "group" {
					g := p.Group(ctx)
					for range tasks {
						g.Go(nothing)
					}
					if err := g.Wait(); err != nil {
						panic(err)
					}
					return
				}
				for range tasks {
					if err := p.Submit(ctx, nothing); err != nil {
						panic(err)
					}
					if name == "workers" {
						runtime.Gosched()
					}
				}
				if err := p.Wait(ctx); err != nil {
					panic(err)
				}
			}
			round() // makes room in the queues, and goroutines to use again
			// The rest is the Wait's own, and a goroutine now and then.
			require.Less(t, testing.AllocsPerRun(20, round), float64(tasks)/20)
		})
	}
}
