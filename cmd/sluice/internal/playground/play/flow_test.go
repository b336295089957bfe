package play_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/cmd/sluice/internal/playground/play"
)

// TestFlows: of five clients the first sends most. By fair shares the others do not wait for it, and in the order of arrival all do.
func TestFlows(t *testing.T) {
	in := play.Input{
		Limits: []string{"20/s burst 1 queue 1000 fair-share", "20/s burst 1 queue 1000"}, Flow: "client", Arrivals: "poisson:30/s,20s,5", Seed: 1,
	}
	page := new(play.Page)
	out := plays(t, page, in)
	require.Empty(t, out.Error)
	fair, oldest := out.Results[0].Flows, out.Results[1].Flows
	require.Len(t, fair, 5)
	require.Len(t, oldest, 5)
	assert.Equal(t, "client 1", fair[0].Key)
	assert.Equal(t, "client 5", fair[4].Key)
	sum := 0
	for i, f := range fair {
		assert.Equal(t, f.Requests, f.Granted+f.Rejected)
		assert.Equal(t, oldest[i].Requests, f.Requests)
		sum += f.Requests
	}
	assert.Equal(t, out.Requests, sum)
	assert.Less(t, fair[4].Wait.P99, 1.0, "it wants less than its share")
	assert.Greater(t, oldest[4].Wait.P99, 5.0)
	assert.Greater(t, fair[0].Wait.P99, oldest[0].Wait.P99)
	assert.Contains(t, out.Results[0].Command, "--flow client ")
	assert.NotContains(t, out.Results[1].Command, "--flow")
	assert.Contains(t, out.Results[0].YAML, "flow: ip")

	in.Flow = ""
	out = plays(t, page, in)
	assert.Empty(t, out.Results[0].Flows)
	assert.Equal(t, out.Results[0].Wait, out.Results[1].Wait, "one flow waits in the order of arrival")
	in.Flow = "nothing"
	assert.NotEmpty(t, plays(t, page, in).Error)
}
