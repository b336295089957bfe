package telemetry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-go/sluice/core"
)

// Waits are recorded by priority where the order is fair-share, and never by key. The attributes are those that Options
// had when Instrument was called.
func TestWaitsByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSDK()
		l := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 1, QueueLimit: 9, QueueOrder: core.FairShare}))
		s.Attributes = []attribute.KeyValue{attribute.String("a", "before")}
		i := instrument(t, s.Options, l)
		s.Attributes[0] = attribute.String("a", "after")
		lease := l.TryAcquire(1)
		for _, f := range []core.Flow{{Key: "a"}, {Key: "b"}, {Key: "a", Priority: 7}} {
			go func() {
				lease, err := i.Acquire(core.WithFlow(t.Context(), f), 1)
				if err != nil {
					t.Error(err)
				}
				lease.Release()
			}()
		}
		time.Sleep(time.Second)
		lease.Release()
		synctest.Wait()
		got := times(t, s)
		require.Equal(t, point{2, 2}, got["sluice.limiter.queue.duration{a=before,sluice.limiter.name=x,sluice.priority=0,sluice.result=granted}"])
		require.Equal(t, point{1, 1}, got["sluice.limiter.queue.duration{a=before,sluice.limiter.name=x,sluice.priority=7,sluice.result=granted}"])
		require.Len(t, got, 3)

		o := l.Options()
		o.QueueOrder = core.OldestFirst
		require.NoError(t, l.Update(o))
		lease = l.TryAcquire(1)
		time.AfterFunc(time.Second, lease.Release)
		lease = core.Must(i.Acquire(t.Context(), 1))
		lease.Release()
		require.Equal(t, point{1, 1}, times(t, s)["sluice.limiter.queue.duration{a=before,sluice.limiter.name=x,sluice.result=granted}"])
	})
}
