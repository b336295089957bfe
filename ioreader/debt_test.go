package ioreader_test

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/ioreader"
)

func TestABucketWithALargeBurstIsSmoothToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketOf(t, 1_000_000, 10, 10*time.Microsecond) // 1 MB/s
		require.True(t, l.TryAcquire(1_000_000).Acquired())
		sink := newMeter()
		_, err := ioreader.NewWriter(t.Context(), sink, l).Write(make([]byte, 4_000_000))
		require.NoError(t, err)
		for _, size := range sink.sizes[1:] { // the first lease tells the rate
			require.LessOrEqual(t, size, 2000)
		}
	})
}

func TestALimitedReaderIsCountedDown(t *testing.T) {
	src := &io.LimitedReader{R: fileOf(t, pattern(1000)), N: 600}
	dst := fileOf(t, nil)
	n, err := ioreader.NewWriter(t.Context(), dst, perSecond(t, 1<<30)).ReadFrom(src)
	require.NoError(t, err)
	require.Equal(t, int64(600), n)
	require.Zero(t, src.N)
	var plain bytes.Buffer
	src.N = 100
	n, err = ioreader.NewWriter(t.Context(), &plain, nil).ReadFrom(src)
	require.NoError(t, err)
	require.Equal(t, int64(100), n)
	require.Equal(t, pattern(1000)[600:700], plain.Bytes())
}
