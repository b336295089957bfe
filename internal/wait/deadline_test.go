package wait_test

import (
	"context"
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
		start := time.Now()
		<-call.Done()
		require.Equal(t, time.Second, time.Since(start))
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

// askingContext is a user's context whose AfterFunc returns a stop function that moves the deadline.
type askingContext struct {
	context.Context

	stop func() bool
}

func (askingContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c askingContext) AfterFunc(func()) func() bool { return c.stop }

// TestNoMutexWhileCallsEnd: what runs when a call ends may use the deadline.
func TestNoMutexWhileCallsEnd(t *testing.T) {
	for _, end := range []func(d *wait.Deadline){
		func(d *wait.Deadline) { d.Set(time.Unix(1, 0)) },
		func(d *wait.Deadline) { d.Close(os.ErrClosed) },
	} {
		var d wait.Deadline
		d.Start(nil)
		asked := false
		ctx := askingContext{t.Context(), func() bool {
			d.Set(time.Time{})
			asked = true
			return true
		}}
		call := d.Source().Begin(ctx)
		end(&d)
		<-call.Done()
		call.End()
		require.True(t, asked)
	}
}
