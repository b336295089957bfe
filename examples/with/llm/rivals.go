package main

import (
	"sync"

	"github.com/sluice-go/sluice/core"
)

// rival is another way to limit tokens. It sees the gateway's requests and only counts which of them it
// would have let through.
type rival struct {
	name    string
	takes   bool // it takes the estimate; if false, it only checks that something is left
	settles bool // it settles the actual cost at the end

	limits [accounts]struct{ requests, tokens *core.SlidingWindow }

	mu               sync.Mutex // guards the fields below
	passed, rejected int
	used             ledger
}

// newRivals returns the rivals. They have the gateway's limits, and none both takes an estimate and settles it.
func newRivals() ([]*rival, error) {
	rivals := []*rival{
		{name: "check first, count later", settles: true},
		{name: "the estimate alone", takes: true},
	}
	for _, r := range rivals {
		for i := range r.limits {
			var err error
			l := &r.limits[i]
			if l.requests, err = core.NewSlidingWindow(window("requests", requestsPerMinute)); err != nil {
				return nil, err
			}
			if l.tokens, err = core.NewSlidingWindow(window("tokens", tokensPerMinute)); err != nil {
				return nil, err
			}
		}
	}
	return rivals, nil
}

// arrive decides about a request and returns a function to call at its end.
func (r *rival) arrive(v visit) (end func()) {
	l := &r.limits[v.account]
	permits := 0
	if r.takes {
		permits = estimate(v.prompt, v.maxTokens)
	}
	request := l.requests.TryAcquire(1)
	lease := l.tokens.TryAcquire(permits)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !request.Acquired() || !lease.Acquired() {
		l.requests.Refund(request)
		l.tokens.Refund(lease)
		r.rejected++
		return func() {}
	}
	r.passed++
	return func() {
		if r.settles {
			l.tokens.Settle(lease, v.used())
		}
		r.used.add(accountName(v.account), v.used())
	}
}
