package spec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

func TestSet(t *testing.T) {
	s := core.NewSwitch(nil)
	require.NoError(t, parse(t, "unlimited").Set(s, "api"))
	require.NoError(t, parse(t, "10/s burst 2").Set(s, "api"))
	b := s.Limiter().(*core.TokenBucket)
	require.Equal(t, "api", b.Options().Name)
	require.NoError(t, parse(t, "20/h burst 3").Set(s, "other"))
	require.Same(t, b, s.Limiter(), "updated in place")
	require.Equal(t, 3, b.Options().TokenLimit)
	lease := s.TryAcquire(2)

	for _, text := range []string{"fixed 10/s", "sliding 10/s", "concurrency 10", "blocked", "unlimited", "concurrency 5"} {
		require.NoError(t, parse(t, text).Set(s, "api"), text)
		in := s.Limiter()
		require.NoError(t, parse(t, text).Set(s, "api"), text)
		require.Same(t, in, s.Limiter(), text)
	}
	lease.Refund()
	require.Equal(t, 2, b.Available(), "the lease is the bucket's")

	in := s.Limiter()
	require.ErrorContains(t, spec.Limit{Kind: spec.TokenBucket}.Set(s, "api"), "Limit.Permits = 0")
	require.Same(t, in, s.Limiter())
	require.ErrorIs(t, parse(t, "10/s").Set(nil, "api"), spec.ErrKind)

	require.NoError(t, s.Close())
	for _, text := range []string{"concurrency 7", "20/s", "unlimited"} {
		require.ErrorIs(t, parse(t, text).Set(s, "api"), core.ErrClosed, text)
	}
	require.Same(t, in, s.Limiter())
}

func TestBlocked(t *testing.T) {
	l := parse(t, "BLOCKED")
	require.Equal(t, spec.Limit{Kind: spec.Blocked}, l)
	require.Equal(t, "blocked", l.String())
	made, err := l.New("api")
	require.NoError(t, err)
	require.ErrorIs(t, made.TryAcquire(1).Err(), core.ErrRejected)
	require.NoError(t, l.Update(made))
	require.ErrorIs(t, l.Update(core.Unlimited()), spec.ErrKind)
	_, err = spec.Parse("blocked 5")
	require.Error(t, err)
	_, err = spec.Limit{Kind: spec.Blocked, Permits: 1}.New("")
	require.ErrorContains(t, err, "Limit.Permits = 1, want 0 for kind blocked")
}

// A text names a zone, and the zone is what the text names.
func TestZonesRoundTrip(t *testing.T) {
	daily := func(loc *time.Location) spec.Limit {
		return spec.Limit{Kind: spec.FixedWindow, Permits: 100, Calendar: core.Daily(loc)}
	}
	for _, text := range []string{"fixed 100/day tz Local", "fixed 100/day tz UTC", "fixed 5/month day 15 tz Local", "fixed 100/day tz Europe/Berlin"} {
		l := parse(t, text)
		require.Equal(t, text, l.String())
		require.Equal(t, l, parse(t, l.String()))
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.Equal(t, "fixed 100/day tz Europe/Berlin", daily(berlin).String())
	for _, loc := range []*time.Location{
		time.FixedZone("UTC", 3600), time.FixedZone("CET", 3600), time.FixedZone("Europe/Berlin", 3600),
		time.FixedZone("Local", 3600), time.FixedZone("EST", -4*3600), time.FixedZone("", 0),
	} {
		_, err := daily(loc).MarshalText()
		require.ErrorContains(t, err, "want a time zone with an IANA name", loc.String())
	}
	for _, text := range []string{"Europe//Berlin", "./Europe/Berlin", "Europe/./Berlin", "Europe/Berlin/"} {
		_, err := spec.Parse("fixed 100/day tz " + text)
		require.ErrorContains(t, err, "unknown time zone")
	}
}
