package pipe_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

// faulty is a context of somebody's own whose Done panics.
type faulty struct{ context.Context }

func (faulty) Done() <-chan struct{} { panic("Done") }

// A context whose Done panics, while a call waits, leaves nothing of the call behind: no
// byte goes to or comes from its slice later.
func TestADoneThatPanicsLeavesNothingBehind(t *testing.T) {
	for name, o := range map[string]pipe.Options{
		"free":   {},
		"writer": {WriteLimiter: concurrency(t, 1<<20, 1<<20)},
		"reader": {ReadLimiter: concurrency(t, 1<<20, 1<<20)},
		"tokens": {WriteLimiter: bucket(t, 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := newPipe(t, o)
				buf := make([]byte, 64<<10)
				require.Panics(t, func() { _, _ = r.ReadContext(faulty{t.Context()}, buf) })
				large := strings.Repeat("-", 9<<10)
				writes(t, w, large)
				require.Equal(t, 9<<10, r.Buffered())
				require.NotContains(t, string(buf), "-")
				reads(t, r, 9<<10, large)

				n := 0
				require.Panics(t, func() { n, _ = w.WriteContext(faulty{t.Context()}, make([]byte, 2<<20)) })
				require.Zero(t, n)
				buffered := r.Buffered()
				_, err := io.ReadFull(r, make([]byte, buffered))
				require.NoError(t, err)
				writes(t, w, "next")
				reads(t, r, len(buf), "next")
			})
		})
	}
}

// forgetful is done and has no error to say so.
type forgetful struct{ context.Context }

func (forgetful) Err() error { return nil }

func TestAContextThatIsDoneWithoutAnError(t *testing.T) {
	for name, o := range map[string]pipe.Options{
		"free":    {},
		"limited": {WriteLimiter: concurrency(t, 1<<20, 1<<20), ReadLimiter: core.Unlimited()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := newPipe(t, o)
				ends := func(call func(ctx context.Context, b []byte) (int, error), b []byte) {
					t.Helper()
					for range 2 { // one has the turn, the other waits for it
						ctx, cancel := context.WithCancel(t.Context())
						time.AfterFunc(time.Second, cancel)
						go func() {
							_, err := call(forgetful{ctx}, b) //nolint:contextcheck // it is made of the ctx of the test
							if err != context.Canceled {      //nolint:errorlint // that very error
								t.Errorf("got %v", err)
							}
						}()
					}
					time.Sleep(2 * time.Second)
				}
				ends(r.ReadContext, make([]byte, 1))
				ends(w.WriteContext, make([]byte, 2<<20))
				require.NoError(t, r.Close())
			})
		})
	}
}
