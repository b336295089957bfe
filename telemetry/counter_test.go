package telemetry_test

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/telemetry"
)

// A limiter takes the place of another of the same name, before or after that one's stop: the
// counter continues from where it is, for exporters of totals and for those of differences.
func TestCountersDoNotFall(t *testing.T) {
	for _, temporality := range []metricdata.Temporality{metricdata.CumulativeTemporality, metricdata.DeltaTemporality} {
		for _, overlap := range []bool{false, true} {
			s := newSDK(sdk.WithTemporalitySelector(func(sdk.InstrumentKind) metricdata.Temporality { return temporality }))
			sum := 0.0
			leases := func(total float64) {
				t.Helper()
				points, _ := s.collect(t)
				n := points["sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted}"].value
				if temporality == metricdata.DeltaTemporality {
					require.GreaterOrEqual(t, n, 0.0)
					n += sum
				}
				sum = n
				require.InDelta(t, total, sum, 0)
			}
			l := concurrency(t, 1000, 0)
			take(l, 90)
			stop := core.Must(telemetry.Observe(s.Options, "api", l))
			leases(90)
			take(l, 10)
			if !overlap {
				require.NoError(t, stop()) // what came after the last collection counts
				leases(100)
			}
			next := concurrency(t, 1000, 0)
			take(next, 50)
			stopNext := core.Must(telemetry.Observe(s.Options, "api", next))
			leases(150)
			require.NoError(t, stop())
			leases(150)
			take(next, 7)
			leases(157)
			require.NoError(t, stopNext())
			leases(157)
		}
	}
}

func take(l core.Limiter, n int) {
	for range n {
		l.TryAcquire(1)
	}
}

// falling is a Reporter whose counts start again, which those of a third-party limiter may.
type falling struct{ granted uint64 }

func (f *falling) Statistics() core.Statistics { return core.Statistics{Granted: f.granted} }

func TestAReporterWhoseCountsFall(t *testing.T) {
	s, f := newSDK(), &falling{granted: 10}
	core.Must(telemetry.Observe(s.Options, "api", f))
	for _, step := range []struct {
		granted uint64
		want    float64
	}{{10, 10}, {4, 10}, {12, 12}, {math.MaxUint64, 1 << 62}} {
		f.granted = step.granted
		points, _ := s.collect(t)
		require.Equal(t, point{value: step.want}, points["sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted}"])
	}
}

// Limiters come and go under one name while two readers collect: the counter is the sum of all, and no reader
// counts what the other has counted.
func TestStressObserve(t *testing.T) {
	const workers, rounds = 4, 50
	readers := []*sdk.ManualReader{sdk.NewManualReader(), sdk.NewManualReader()}
	o := telemetry.Options{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(readers[0]), sdk.WithReader(readers[1]))}
	var working, collecting sync.WaitGroup
	for worker := range workers {
		working.Go(func() {
			for round := range rounds {
				l := concurrency(t, 10, 0)
				stop, err := telemetry.Observe(o, "api", l)
				if err != nil {
					t.Error(err)
					return
				}
				take(l, 1+(worker+round)%3)
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	for _, r := range readers {
		collecting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, _, err := (sdkReader{r, o}).read(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	working.Wait()
	close(stop)
	collecting.Wait()
	want := 0
	for n := range workers * rounds {
		want += 1 + (n/rounds+n%rounds)%3
	}
	for _, r := range readers {
		points, _ := sdkReader{r, o}.collect(t)
		require.Equal(t, map[string]point{
			"sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted}":  {value: float64(want)},
			"sluice.limiter.leases{sluice.limiter.name=api,sluice.result=rejected}": {},
		}, points)
	}
}

// As the documentation says of equal names: a gauge shows one limiter, a counter both.
func TestEqualNames(t *testing.T) {
	s := newSDK()
	one := core.Must(telemetry.Observe(s.Options, "api", counts{Limit: 10, Granted: 7}))
	core.Must(telemetry.Observe(s.Options, "api", counts{Limit: 20, Granted: 5}))
	points, _ := s.collect(t)
	require.Len(t, points, 5)
	require.Contains(t, []float64{10, 20}, points["sluice.limiter.permits.limit{sluice.limiter.name=api}"].value)
	require.Equal(t, point{value: 12}, points["sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted}"])
	require.NoError(t, one())
	points, _ = s.collect(t)
	require.Equal(t, point{value: 20}, points["sluice.limiter.permits.limit{sluice.limiter.name=api}"])
	require.Equal(t, point{value: 12}, points["sluice.limiter.leases{sluice.limiter.name=api,sluice.result=granted}"])
}
