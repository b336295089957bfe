package meter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlice is the rule for the size of a slice.
func TestSlice(t *testing.T) {
	const unknown, ms = math.MaxInt, time.Millisecond
	for name, c := range map[string]struct {
		observation
		want int
	}{
		// Available without a wait.
		"no rate, a limit":           {observation{size: 4096, asked: 4096, waited: noWait, limit: 80_000}, 10_000},
		"no rate, a small limit":     {observation{size: 4096, asked: 4096, waited: noWait, limit: 4}, 1},
		"no rate, no limit":          {observation{size: 4096, asked: 4096, waited: noWait, limit: unknown}, largest},
		"a rate":                     {observation{size: 4096, asked: 4096, waited: noWait, limit: 1e6, rated: 2000}, 2000},
		"a rate and much available":  {observation{size: 2000, asked: 2000, waited: noWait, limit: 1e6, rated: 2000, left: 80_000}, 10_000},
		"a rate and all available":   {observation{size: 2000, asked: 2000, waited: noWait, limit: 1e6, rated: 2000, left: 1e6}, largest},
		"a rate and less available":  {observation{size: 9000, asked: 9000, waited: noWait, limit: 1e6, rated: 2000, left: 8000}, 2000},
		"a rate and a smaller limit": {observation{size: 4096, asked: 4096, waited: noWait, limit: 16_000, rated: 2000, left: 8000}, 2000},
		"a low rate":                 {observation{size: 4096, asked: 4096, waited: noWait, limit: 1e6, rated: 20, least: packet}, packet},
		"a limit of half a packet":   {observation{size: 4096, asked: 4096, waited: noWait, limit: 730, rated: 2, least: 730}, 730},
		"permits that are held":      {observation{size: 4096, asked: 4096, waited: noWait, limit: 800, rated: 2, left: 400, least: 50}, 50},
		"a high rate":                {observation{size: 4096, asked: 4096, waited: noWait, limit: unknown, rated: math.MaxInt}, largest},

		// After a wait, of a limiter whose rate is credible: in the time of the wait it has brought at least
		// an eighth of what was asked for.
		"waited as long as the rate takes": {observation{size: 4096, asked: 4096, waited: 4 * ms, limit: 1e6, rated: 2000}, 2000},
		"waited for an eighth":             {observation{size: 4000, asked: 4000, waited: ms / 2, limit: 1e6, rated: 2000}, 2000},
		"waited, a smaller limit":          {observation{size: 4096, asked: 4096, waited: 4 * ms, limit: 13_600, rated: 2000}, 1700},
		"waited, a higher rate":            {observation{size: 2000, asked: 2000, waited: 4 * ms, limit: 1e6, rated: 20_000}, 20_000},

		// After a wait, of a limiter that reports a limit and no rate.
		"waited, no rate, a limit": {observation{size: 4096, asked: 4096, waited: time.Second, limit: 80_000}, 10_000},

		// After a wait, of a limiter that reports neither, or a rate that is far too low.
		"waited long":                      {observation{size: 4096, asked: 4096, waited: 3 * ms, limit: unknown}, 2048},
		"waited long with the smallest":    {observation{size: packet, asked: packet, waited: 3 * ms, limit: unknown}, packet},
		"waited long with a smaller one":   {observation{size: 100, asked: 100, waited: 3 * ms, limit: unknown}, 100},
		"waited long, a low rate":          {observation{size: 60_000, asked: 60_000, waited: 3 * ms, limit: 1e6, rated: 1000}, 30_000},
		"waited for a while":               {observation{size: 4096, asked: 4096, waited: ms, limit: unknown}, 4096},
		"waited for an instant":            {observation{size: 4096, asked: 4096, waited: 0, limit: unknown}, 8192},
		"waited for an instant, low rate":  {observation{size: 4096, asked: 4096, waited: 0, limit: 1e6, rated: 1}, 8192},
		"waited for an instant, the most":  {observation{size: largest, asked: largest, waited: 0, limit: unknown}, largest},
		"waited for an instant, not whole": {observation{size: 4096, asked: 100, waited: 0, limit: unknown}, 4096},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.next()) })
	}
}
