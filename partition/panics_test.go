package partition_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
)

// idlePanics is a limiter that cannot say whether it is idle.
type idlePanics struct{ *fake }

func (idlePanics) IdleFor() (time.Duration, bool) { panic("odd") }

// A limiter whose IdleFor panics keeps its partition, and breaks no request of another key:
// not one that visits it, nor one that makes room. Sweep, which was asked to look, panics once
// it has dropped the others.
func TestPanicOfIdleFor(t *testing.T) {
	k := newKeyed(t, options{
		MaxPartitions: 12,
		New: func(key string) (core.Limiter, error) {
			if key == "odd" {
				return idlePanics{newFake(busy)}, nil
			}
			return newFake(0), nil
		},
	})
	takes(t, k, "odd", 1)
	for range 3 {
		for i := range 50 {
			takes(t, k, strconv.Itoa(i), 1)
			takes(t, k, "odd", 1)
			takes(t, k, strconv.Itoa(i), 1)
		}
	}
	require.Equal(t, 12, k.Len())

	for _, l := range k.All() {
		if f, ok := l.(*fake); ok {
			f.idle.Store(int64(time.Hour))
		}
	}
	require.PanicsWithValue(t, "odd", func() { k.Sweep() })
	require.Equal(t, map[string]bool{"odd": true}, live(k))
}
