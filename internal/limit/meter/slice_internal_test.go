package meter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRulesOfASlice has a row for each part of a rule; the other rules leave the size as it is.
func TestRulesOfASlice(t *testing.T) {
	const much = 100 << 20
	for name, c := range map[string]struct {
		observation
		want int
	}{
		"1: what the rate allows in 2 ms":         {observation{limit: much, brings: 2000, left: 15_999}, 2000},
		"1: an eighth of the available permits":   {observation{limit: much, brings: 2000, left: 16_008}, 2001},
		"2: at most 64 KiB":                       {observation{limit: much, brings: much, left: much}, 64 << 10},
		"2: at most an eighth of the limit":       {observation{limit: 80_000, brings: 60_000}, 10_000},
		"3: at least 1,460 bytes":                 {observation{limit: much, brings: 1}, 1460},
		"3: or the limit":                         {observation{limit: 1459, brings: 1}, 1459},
		"3: only under a rate limiter":            {observation{limit: 800}, 100},
		"4: an eighth of what may be held":        {observation{limit: 800, brings: 1, held: 100}, 100},
		"4: also of a limit that is not reported": {observation{limit: math.MaxInt, brings: 2000, held: 100}, 100},
		"4: at least a byte":                      {observation{limit: 1, held: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.size, c.asked, c.waited = 4096, 4096, noWait
			if c.held == 0 {
				c.held = largest
			}
			require.Equal(t, c.want, c.next())
		})
	}
}

// TestSlice is the size of a slice after waits, and if not all is known.
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
		"a rate":                     {observation{size: 4096, asked: 4096, waited: noWait, limit: 1e6, brings: 2000}, 2000},
		"a rate and much available":  {observation{size: 2000, asked: 2000, waited: noWait, limit: 1e6, brings: 2000, left: 80_000}, 10_000},
		"a rate and all available":   {observation{size: 2000, asked: 2000, waited: noWait, limit: 1e6, brings: 2000, left: 1e6}, largest},
		"a rate and less available":  {observation{size: 9000, asked: 9000, waited: noWait, limit: 1e6, brings: 2000, left: 8000}, 2000},
		"a rate and a smaller limit": {observation{size: 4096, asked: 4096, waited: noWait, limit: 16_000, brings: 2000, left: 8000}, 2000},
		"a low rate":                 {observation{size: 4096, asked: 4096, waited: noWait, limit: 1e6, brings: 20}, packet},
		"a limit of half a packet":   {observation{size: 4096, asked: 4096, waited: noWait, limit: 730, brings: 2}, 730},
		"permits that are held":      {observation{size: 4096, asked: 4096, waited: noWait, limit: 800, brings: 2, left: 400, held: 50}, 50},
		"a high rate":                {observation{size: 4096, asked: 4096, waited: noWait, limit: unknown, brings: math.MaxInt}, largest},

		// After a wait, of a limiter whose rate is credible: in the time of the wait it has brought at least
		// an eighth of what was asked for.
		"waited as long as the rate takes": {observation{size: 4096, asked: 4096, waited: 4 * ms, limit: 1e6, brings: 2000}, 2000},
		"waited for an eighth":             {observation{size: 4000, asked: 4000, waited: ms / 2, limit: 1e6, brings: 2000}, 2000},
		"waited, a smaller limit":          {observation{size: 4096, asked: 4096, waited: 4 * ms, limit: 13_600, brings: 2000}, 1700},
		"waited, a higher rate":            {observation{size: 2000, asked: 2000, waited: 4 * ms, limit: 1e6, brings: 20_000}, 20_000},

		// After a wait, of a limiter that reports a limit and no rate.
		"waited, no rate, a limit": {observation{size: 4096, asked: 4096, waited: time.Second, limit: 80_000}, 10_000},

		// After a wait, of a limiter that reports neither, or a rate that is far too low.
		"waited long":                      {observation{size: 4096, asked: 4096, waited: 3 * ms, limit: unknown}, 2048},
		"waited long with the smallest":    {observation{size: packet, asked: packet, waited: 3 * ms, limit: unknown}, packet},
		"waited long with a smaller one":   {observation{size: 100, asked: 100, waited: 3 * ms, limit: unknown}, 100},
		"waited long, a low rate":          {observation{size: 60_000, asked: 60_000, waited: 3 * ms, limit: 1e6, brings: 1000}, 30_000},
		"waited for a while":               {observation{size: 4096, asked: 4096, waited: ms, limit: unknown}, 4096},
		"waited for an instant":            {observation{size: 4096, asked: 4096, waited: 0, limit: unknown}, 8192},
		"waited for an instant, low rate":  {observation{size: 4096, asked: 4096, waited: 0, limit: 1e6, brings: 1}, 8192},
		"waited for an instant, the most":  {observation{size: largest, asked: largest, waited: 0, limit: unknown}, largest},
		"waited for an instant, not whole": {observation{size: 4096, asked: 100, waited: 0, limit: unknown}, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			if c.held == 0 {
				c.held = largest
			}
			require.Equal(t, c.want, c.next())
		})
	}
}
