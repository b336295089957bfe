package wait_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/internal/wait"
)

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
