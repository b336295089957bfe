package simulate

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFlows: the flows are listed with their waits, which of the one that sends most are the longest.
func TestFlows(t *testing.T) {
	f := flags{limit: "20/s burst 1 queue 1000 fair-share", flow: "client", arrivals: "poisson:30/s,20s,5", seed: 1, top: 3}
	r, err := f.simulate(nil, nil)
	require.NoError(t, err)
	v := r.report(3)
	require.Len(t, v.Flows, 3)
	assert.Equal(t, "client 1", v.Flows[0].Key)
	assert.Greater(t, v.Flows[0].Wait.P99, 5.0)
	assert.Less(t, v.Flows[2].Wait.P99, v.Flows[0].Wait.P99/2)
	assert.Empty(t, v.Notes)
	text := v.text(r.what)
	assert.Regexp(t, `requests +granted +rejected +waited +wait p50 +wait p99 +flow\n +\d+ +\d+ +0 .* client 1\n`, text)
	var out bytes.Buffer
	f.json = true
	require.NoError(t, f.write(r, &out))
	var printed struct {
		Flows []struct {
			Key      string
			Requests int
			Wait     struct{ P99 float64 }
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed))
	require.Len(t, printed.Flows, 3)
	assert.Equal(t, v.Flows[0].Requests, printed.Flows[0].Requests)
	assert.InDelta(t, v.Flows[0].Wait.P99, printed.Flows[0].Wait.P99, 0)

	f = flags{limit: "20/s burst 1 queue 1000 fair-share", arrivals: "poisson:30/s,20s,5", seed: 1}
	r, err = f.simulate(nil, nil)
	require.NoError(t, err)
	assert.Contains(t, r.report(3).Notes[0], "--flow")
	assert.Empty(t, r.report(3).Flows)
}

func TestBadFlows(t *testing.T) {
	for want, f := range map[string]flags{
		"--flow requires a limit with fair-share": {limit: "20/s queue 10", flow: "client"},
		`--flow "nobody"`:                         {limit: "20/s queue 10 fair-share", flow: "nobody"},
		"--flow does not work with --config":      {config: "x.yaml", flow: "client"},
	} {
		_, err := f.plan()
		require.ErrorContains(t, err, want)
	}
}
