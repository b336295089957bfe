package wait

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A timer that was about to run when its deadline was moved ends nothing.
func TestATimerOfAnEarlierDeadline(t *testing.T) {
	var d Deadline
	d.Start(nil)
	d.Set(time.Now().Add(time.Hour))
	late := d.timer
	d.Set(time.Now().Add(2 * time.Hour))
	require.Empty(t, d.expire(&late))
	require.NoError(t, d.Source().Cause())
	d.Close(nil)
}
