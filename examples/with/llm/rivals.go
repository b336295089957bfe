package main

import (
	"sync"

	"github.com/sluice-go/sluice/core"
)

// rival is another way to limit tokens. It sees the requests that the gateway gets, and keeps to
// itself what it would have done with them.
type rival struct {
	name    string
	takes   bool // it takes the estimate, or else only looks whether anything is left
	settles bool // in the end it counts what was used, or else leaves it at that

	limits [accounts]struct{ requests, tokens *core.SlidingWindow }

	mu               sync.Mutex // guards what follows
	passed, rejected int
	used             ledger
}

// newRivals returns the rivals: they have the same limits as a gateway, and do not settle an estimate.
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

// arrive decides about a request, and returns what to call when it has ended.
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
