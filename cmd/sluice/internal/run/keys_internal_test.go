package run

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheTimeForThePoolDoesNotCount: a job that held its permit while it waited for the pool starts like one that has just got it:
// the next job of its key starts as much later as the limit says, and not immediately.
func TestTheTimeForThePoolDoesNotCount(t *testing.T) {
	for _, test := range []struct {
		limit       string
		pool, after time.Duration // what the first job waits for the pool, and the next one for its permit
	}{
		{"1/s", 0, time.Second},
		{"1/s", 400 * time.Millisecond, time.Second},
		{"1/s", 2500 * time.Millisecond, time.Second},
		{"1/s burst 2", 2500 * time.Millisecond, 0},
		{"fixed 1/1s", 2500 * time.Millisecond, 500 * time.Millisecond},
		{"sliding 1/1s", 2500 * time.Millisecond, time.Second},
		{"concurrency 1", time.Minute, 3 * time.Second},
		{"10/s, concurrency 1", time.Minute, 3 * time.Second},
		{"2/s, 1/5s", 7 * time.Second, 5 * time.Second},
		{"fixed 1/day tz UTC", 25 * time.Hour, 23 * time.Hour},
	} {
		t.Run(test.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits, err := parseLimits(test.limit)
				require.NoError(t, err)
				k, err := newKeys(limits)
				require.NoError(t, err)
				first, err := k.take(t.Context(), "key")
				require.NoError(t, err)
				time.Sleep(test.pool)
				first = k.restart("key", first)
				require.True(t, first.Acquired())
				time.AfterFunc(3*time.Second, first.Release) // its program has ended
				started := time.Now()
				_, err = k.take(t.Context(), "key")
				require.NoError(t, err)
				assert.Equal(t, test.after, time.Since(started))
			})
		})
	}
}

func TestBarText(t *testing.T) {
	b := &bar{all: 40}
	assert.Equal(t, "0/40 jobs [>------------] 0% 0.0/s", b.text(34, 0))
	b.ended.Store(10)
	assert.Equal(t, "10/40 jobs [==>--------] 25% 5.0/s 6s left", b.text(42, 2*time.Second))
	assert.Equal(t, "10/40 jobs  25% 5.0/s 6s left", b.text(10, 2*time.Second))
	b.ended.Store(40)
	assert.Equal(t, "40/40 jobs [=========>] 100% 4.0/s 0s left", b.text(42, 10*time.Second))
}
