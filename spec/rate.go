package spec

import (
	"time"

	"github.com/sluice-go/sluice/internal/rates"
)

const (
	leastPeriod = time.Microsecond // least period of single permits
	mostPeriod  = time.Millisecond // greatest period of several permits
)

// rate returns the token limit and the rate of a valid limit's bucket; see the package's documentation.
func (l Limit) rate() (burst int, r rates.Rate) {
	if l.Bytes {
		burst, r = rates.Bytes(l.Permits, l.Per)
	} else {
		burst, r = l.Permits, l.evenly()
	}
	if l.Burst != 0 {
		burst = l.Burst
	}
	switch {
	case r.Tokens <= burst:
		return burst, r
	case l.Bytes:
		// A full bucket loses the tokens that are added, so a reader that looks only now and then would
		// lose a part of each period if a whole burst came together.
		return burst, rates.AtMost(max(1, burst/8), l.Permits, l.Per)
	}
	return burst, rates.AtMost(burst, l.Permits, l.Per)
}

// evenly returns the rate of permits that are not bytes, for a burst that is large enough.
func (l Limit) evenly() rates.Rate {
	if l.Per/leastPeriod >= time.Duration(l.Permits) {
		return rates.AtMost(1, l.Permits, l.Per)
	}
	if r, ok := rates.Exact(l.Permits, l.Per, 1, mostPeriod); ok {
		return r
	}
	return rates.Rate{Tokens: rates.Within(l.Permits, l.Per, mostPeriod), Period: mostPeriod}
}
