package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/spec"
)

// TestDay: a day has as many requests as its mean rate says, most of them in the afternoon and few at night.
func TestDay(t *testing.T) {
	a, err := ParseArrivals("day:10/s,24h", 1)
	require.NoError(t, err)
	var byHour [24]int
	n := 0
	for at := range a.times() {
		byHour[at/int64(time.Hour)]++
		n++
	}
	assert.InEpsilon(t, a.Mean(), n, 0.005)
	assert.InEpsilon(t, 15.0/2, float64(byHour[14])/float64(byHour[3]), 0.1)
	assert.Equal(t, slices.Max(byHour[:]), max(byHour[13], byHour[14]))
}

// TestLongArrivals: the instant after the last one may be more than an int64 has.
func TestLongArrivals(t *testing.T) {
	for _, kind := range []string{"constant", "bursts"} {
		a, err := ParseArrivals(kind+":1/2000000h,2500000h", 1)
		require.NoError(t, err)
		var times []time.Duration
		for at := range a.times() {
			if times = append(times, time.Duration(at)); len(times) > 2 {
				break
			}
		}
		assert.Equal(t, []time.Duration{0, 2_000_000 * time.Hour}, times, kind)
	}
}

// TestClients: the clients of a pattern share its requests by their rank, and do not change the times.
func TestClients(t *testing.T) {
	one, err := ParseArrivals("poisson:100/s,10m", 1)
	require.NoError(t, err)
	three, err := ParseArrivals("poisson:100/s,10m,3", 1)
	require.NoError(t, err)
	assert.Equal(t, slices.Collect(one.times()), slices.Collect(three.times()))
	l := limitOf(t, "unlimited")
	p, err := Of(spec.Limits{l}, "client")
	require.NoError(t, err)
	counts := make(map[string]int)
	n := 0
	for q := range three.Requests(p) {
		counts[p.Name(q.Steps[0].ID).Key]++
		n++
	}
	assert.Len(t, counts, 3)
	for i, name := range []string{"client 1", "client 2", "client 3"} {
		assert.InEpsilon(t, float64(n)*6/11/float64(i+1), counts[name], 0.02, name)
	}
}

func TestParseArrivals(t *testing.T) {
	for _, text := range []string{
		"", "often", "poisson", "poisson:", "poisson:1/s", "poisson:1/s,", "poisson:1/s,0", "poisson:1/s,-1s", "poisson:1,1s", "poisson:fixed 1/s,1s",
		"often:1/s,1s", "day:1/s,1h,", "day:1/s,1h,0", "day:1/s,1h,x", "day:1/s,1h,1000001", "day:1/s,1h,1,1",
	} {
		_, err := ParseArrivals(text, 1)
		assert.Error(t, err, text)
	}
}

// TestTaking: requests take a fixed time, or times at random with a mean, which do not change when they come.
func TestTaking(t *testing.T) {
	plain, err := ParseArrivals("poisson:100/s,10m", 1)
	require.NoError(t, err)
	assert.False(t, plain.HaveDurations())
	requests := func(takes string) (all []Request) {
		a, err := plain.Taking(takes)
		require.NoError(t, err)
		assert.Equal(t, takes != "", a.HaveDurations())
		p, err := Of(spec.Limits{limitOf(t, "concurrency 5")}, "")
		require.NoError(t, err)
		for q := range a.Requests(p) {
			all = append(all, q)
		}
		return all
	}
	none, fixed, random := requests(""), requests("450ms"), requests("exponential:450ms")
	sum, squares := 0.0, 0.0
	for i := range none {
		assert.Zero(t, none[i].Took)
		assert.Equal(t, int64(450*time.Millisecond), fixed[i].Took)
		assert.Equal(t, none[i].At, random[i].At)
		sum += float64(random[i].Took)
		squares += float64(random[i].Took) * float64(random[i].Took)
	}
	mean := sum / float64(len(none))
	assert.InEpsilon(t, 450e6, mean, 0.02)
	assert.InEpsilon(t, 2*mean*mean, squares/float64(len(none)), 0.05, "the variance of an exponential distribution")
	for _, text := range []string{"soon", "-1s", "exponential:", "exponential:soon", "poisson:1s"} {
		_, err := plain.Taking(text)
		assert.ErrorContains(t, err, "is not a duration such as 450ms", text)
	}
}
