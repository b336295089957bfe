//go:build unix

package redislimit_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/internal/realserver"
)

// The primary is killed, and its replica promoted, by command or because Sentinel finds it
// dead: until then Unavailable decides, and afterwards the limit holds again, less what was taken.
func TestFailoverIsDecidedByDown(t *testing.T) {
	t.Parallel()
	for _, program := range realserver.Programs(t) {
		for _, adapter := range []string{"go-redis", "rueidis"} {
			for name, after := range map[string]time.Duration{"forced": 0, "detected": 300 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s/%s/%s", filepath.Base(program), adapter, name), func(t *testing.T) {
					t.Parallel()
					primary := realserver.Start(t, program)
					realserver.Replica(t, program, primary)
					sentinel := realserver.Sentinel(t, program, primary, after)
					store := sentinelStores[adapter](t, sentinel.Addr)
					var all []*downFailover
					for _, down := range []redislimit.Unavailable{redislimit.FailClosed, redislimit.FailOpen, redislimit.UseLocal} {
						all = append(all, newDownFailover(t, store, down))
					}
					replicated(t, primary)
					primary.Kill()
					killed := time.Now()
					for _, d := range all {
						d.away(t)
					}
					if after == 0 {
						sentinel.Failover()
					}
					for _, d := range all {
						d.untilBack(t, killed)
						d.holds(t)
					}
				})
			}
		}
	}
}

// downFailover is one limiter, which is asked again and again during a failover.
type downFailover struct {
	down      redislimit.Unavailable
	limiter   core.Limiter
	patiently *redislimit.TokenBucket // the same limit
	states    chan bool

	outcomes map[string]int
	longest  time.Duration
}

const (
	downRate  = 1000 // permits, which do not come back
	downTaken = 100  // of them, before
	downLocal = 2
)

func newDownFailover(t *testing.T, store redislimit.Store, down redislimit.Unavailable) *downFailover {
	t.Helper()
	local, err := core.NewFixedWindow(core.FixedWindowOptions{PermitLimit: downLocal, Window: time.Hour})
	require.NoError(t, err)
	d := &downFailover{down: down, states: make(chan bool, 100), outcomes: map[string]int{}}
	o := redislimit.StoreOptions{Store: store, Key: down.String(), Unavailable: down, Local: local, Prefetch: 1, Timeout: patient}
	terms := core.TokenBucketOptions{TokenLimit: downRate, TokensPerPeriod: 1, ReplenishmentPeriod: 1000 * time.Hour}
	d.patiently = bucket(t, o, terms)
	o.Timeout, o.OnState = 0, func(up bool, _ error) { d.states <- up }
	d.limiter = bucket(t, o, terms)
	takes(t, d.patiently, downTaken)
	return d
}

// away finds that Unavailable decides.
func (d *downFailover) away(t *testing.T) {
	t.Helper()
	const tries = 50
	for range tries {
		d.decide(t)
	}
	require.False(t, <-d.states)
	require.Equal(t, map[redislimit.Unavailable]map[string]int{
		redislimit.FailClosed: {"away": tries},
		redislimit.FailOpen:   {"granted": tries},
		redislimit.UseLocal:   {"granted": downLocal, "rejected": tries - downLocal},
	}[d.down], d.outcomes)
}

// untilBack asks until the store is back.
func (d *downFailover) untilBack(t *testing.T, killed time.Time) {
	t.Helper()
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for up := false; !up; <-pace.C {
		d.decide(t)
		select {
		case up = <-d.states:
		default:
		}
		require.Less(t, time.Since(killed), 12*patient, "the replica is promoted, and found")
	}
	t.Logf("%v: back after %v; %v; longest decision %v", d.down, time.Since(killed).Round(10*time.Millisecond), d.outcomes, d.longest.Round(time.Millisecond))
}

// holds finds that what the replica knows of is not granted again.
func (d *downFailover) holds(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return d.patiently.Available() <= downRate-downTaken }, 2*patient, 10*time.Millisecond)
	left, took := d.patiently.Available(), 0
	for took < left && d.patiently.TryAcquire(1).Acquired() {
		took++
	}
	require.Equal(t, left, took)
	require.LessOrEqual(t, took, downRate-downTaken)
	require.Zero(t, d.patiently.Available())
}

// decide takes one permit, and notes how that ended and how long it took.
func (d *downFailover) decide(t *testing.T) {
	t.Helper()
	begin := time.Now()
	err := d.limiter.TryAcquire(1).Err()
	d.longest = max(d.longest, time.Since(begin))
	switch {
	case err == nil:
		d.outcomes["granted"]++
	case errors.Is(err, redislimit.ErrStore):
		d.outcomes["away"]++
	case errors.Is(err, core.ErrRejected):
		d.outcomes["rejected"]++
	default:
		t.Error(err)
	}
}
