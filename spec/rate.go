package spec

import (
	"time"

	"github.com/sluice-go/sluice/internal/rates"
)

const (
	leastPeriod = time.Microsecond // of single permits
	mostPeriod  = time.Millisecond // of more than one
	byteTime    = 10 * time.Millisecond
)

// rate returns the rate of a valid limit's bucket; see the package's documentation.
func (l Limit) rate() rates.Rate {
	r := l.smooth()
	burst := l.burst()
	if r.Tokens <= burst {
		return r
	}
	if l.Bytes {
		// A full bucket loses the tokens that come, so a reader that looks only now and then would lose
		// a part of each period if a whole burst came at once.
		burst = max(1, burst/8)
	}
	return rates.AtMost(burst, l.Permits, l.Per)
}

// smooth is rate for a burst that is large enough.
func (l Limit) smooth() rates.Rate {
	if l.Per/leastPeriod >= time.Duration(l.Permits) {
		return rates.AtMost(1, l.Permits, l.Per)
	}
	if r, ok := rates.Exact(l.Permits, l.Per, 1, mostPeriod); ok {
		return r
	}
	return rates.Rate{Tokens: rates.Within(l.Permits, l.Per, mostPeriod), Period: mostPeriod}
}

// burst returns the token limit of a bucket.
func (l Limit) burst() int {
	switch {
	case l.Burst != 0:
		return l.Burst
	case l.Bytes:
		return max(1, rates.Within(l.Permits, l.Per, byteTime))
	}
	return l.Permits
}
