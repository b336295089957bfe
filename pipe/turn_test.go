package pipe_test

import (
	"errors"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/testkit"
	"github.com/sluice-go/sluice/pipe"
)

// TestCallsOnOneEndTakeTurns has goroutines that write to, or read from, one end again and again, while the other end
// needs a millisecond for each of its calls.
func TestCallsOnOneEndTakeTurns(t *testing.T) {
	const size = 32 << 10
	for name, o := range map[string]func() pipe.Options{
		"no limits": func() pipe.Options { return pipe.Options{} },
		"a buffer":  func() pipe.Options { return pipe.Options{Buffer: size} },
		"a rate": func() pipe.Options {
			return pipe.Options{WriteLimiter: core.Must(core.NewTokenBucket(core.PerSecond(32<<20, size)))}
		},
		"reads": func() pipe.Options {
			return pipe.Options{ReadLimiter: core.Must(core.NewTokenBucket(core.PerSecond(32<<20, size)))}
		},
		"a bound": func() pipe.Options { return pipe.Options{WriteLimiter: concurrency(t, size, 0)} },
		"foreign one": func() pipe.Options {
			return pipe.Options{WriteLimiter: struct{ core.Limiter }{concurrency(t, size, math.MaxInt)}}
		},
	} {
		for _, writers := range []int{1, 4} {
			kind := map[int]string{1: "Reads, ", 4: "Writes, "}[writers]
			testkit.Bubble(t, kind+name, func(t *testing.T) {
				r, w := newPipe(t, o())
				var all sync.WaitGroup
				counts := make([]int, 4)
				end := time.Now().Add(2 * time.Second)
				repeat := func(count *int, pause time.Duration, call func([]byte) (int, error)) {
					all.Go(func() {
						for p := make([]byte, size); time.Now().Before(end); time.Sleep(pause) {
							n, err := call(p)
							if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
								return
							}
							if err != nil {
								t.Error(err)
							}
							*count += n
						}
						_ = w.Close()
						_ = r.Close()
					})
				}
				var other int
				for i := range counts {
					if writers == 4 {
						repeat(&counts[i], 0, w.Write)
					} else {
						repeat(&counts[i], 0, r.Read)
					}
				}
				if writers == 4 {
					repeat(&other, time.Millisecond, r.Read)
				} else {
					repeat(&other, time.Millisecond, w.Write)
				}
				all.Wait()
				for _, n := range counts {
					require.InEpsilon(t, float64(other)/4, n, 0.2, "%v", counts)
				}
			})
		}
	}
}
