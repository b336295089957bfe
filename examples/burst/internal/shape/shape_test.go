package shape_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/examples/burst/internal/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachLimiterHasItsShape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		shapes, err := shape.Measure(t.Context(), time.Second, 6)
		require.NoError(t, err)
		assert.Equal(t, 6*time.Second, time.Since(start))

		type seconds = []shape.Second
		want := map[string]seconds{
			"Concurrency limiter": {{5, 20, 5}, {5, 15, 0}, {5, 10, 0}, {5, 5, 0}, {5, 0, 0}, {0, 0, 0}},
			"Token bucket":        {{9, 16, 5}, {5, 11, 0}, {5, 6, 0}, {5, 1, 0}, {1, 0, 0}, {0, 0, 0}},
			"Fixed window":        {{10, 20, 0}, {10, 10, 0}, {0, 10, 0}, {10, 0, 0}, {0, 0, 0}, {0, 0, 0}},
			"Sliding window":      {{10, 20, 0}, {0, 20, 0}, {10, 10, 0}, {0, 10, 0}, {10, 0, 0}, {0, 0, 0}},
		}
		require.Len(t, shapes, len(want))
		for _, s := range shapes {
			assert.Equal(t, want[s.Name], s.Seconds, s.Name)
			var granted, rejected uint64
			for _, sec := range s.Seconds {
				granted += uint64(sec.Granted)
				rejected += uint64(sec.Rejected)
			}
			assert.Equal(t, s.Counted.Granted, granted, s.Name)
			assert.Equal(t, s.Counted.Rejected, rejected, s.Name)
		}
	})
}

func TestWhatStillWaitsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shapes, err := shape.Measure(t.Context(), time.Second, 1)
		require.NoError(t, err)
		for _, s := range shapes {
			require.Len(t, s.Seconds, 1)
			sec := s.Seconds[0]
			assert.Equal(t, shape.Requests, sec.Granted+sec.Waiting+sec.Rejected, s.Name)
			assert.Positive(t, sec.Waiting, s.Name)
		}
	})
}

func TestInterruptedMeasureSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := shape.Measure(ctx, time.Second, 6)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestDraw(t *testing.T) {
	t.Parallel()
	s := shape.Shape{
		Name: "Toy", Terms: "as drawn",
		Seconds: []shape.Second{{Granted: 3, Waiting: 2, Rejected: 1}, {Granted: 2}},
		Counted: core.Statistics{Granted: 5, Rejected: 1},
	}
	var b strings.Builder
	require.NoError(t, s.Draw(&b))
	assert.Equal(t, `
Toy: as drawn
  second 1  ███░░×                           3 granted,  2 waiting,  1 rejected
  second 2  ██                               2 granted,  0 waiting,  0 rejected
  in all 5 granted, 1 rejected; the limiter counted 5 and 1
`, b.String())

	assert.Error(t, s.Draw(broken{}))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no paper") }
