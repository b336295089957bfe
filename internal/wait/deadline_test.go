package wait_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

func TestADeadlineEndsCallsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d wait.Deadline
		var told []bool
		d.Start(func(expired bool) { told = append(told, expired) })
		call := d.Source().Begin(t.Context())
		defer call.End()
		d.Set(time.Now().Add(2 * time.Second))
		d.Set(time.Now().Add(time.Second))
		begun := time.Now()
		<-call.Done()
		require.Equal(t, time.Second, time.Since(begun))
		require.Equal(t, os.ErrDeadlineExceeded, call.Ended())

		d.Set(time.Time{})
		require.NoError(t, d.Source().Cause())
		d.Set(time.Now().Add(-time.Second))
		d.Set(time.Now())
		require.Equal(t, os.ErrDeadlineExceeded, d.Source().Cause())
		require.Equal(t, []bool{true, false, true, true}, told)
	})
}

func TestADeadlineThatWasMovedDoesNothingAtItsOldTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d wait.Deadline
		d.Start(nil)
		for _, to := range []time.Time{{}, time.Now().Add(time.Hour)} {
			d.Set(time.Now().Add(time.Second))
			d.Set(to)
			time.Sleep(2 * time.Second)
			require.NoError(t, d.Source().Cause())
		}
		require.True(t, d.Close(errors.New("over")))
	})
}

func TestCloseIsForGood(t *testing.T) {
	over := errors.New("over")
	for _, at := range []time.Time{{}, time.Unix(1, 0), time.Now().Add(time.Hour)} {
		var d wait.Deadline
		require.Nil(t, d.Source())
		d.Start(nil)
		d.Set(at)
		require.True(t, d.Close(over))
		require.False(t, d.Close(errors.New("late")))
		d.Set(time.Time{})
		require.Equal(t, over, d.Source().Cause())
	}
}
