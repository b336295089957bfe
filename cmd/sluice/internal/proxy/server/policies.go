package server

import (
	"net/http"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/httplimit"
)

// options returns the limits as policies of httplimit.
func (p *Proxy) options(c *config.Config, set *limits.Set) (httplimit.Options, error) {
	o := httplimit.Options{
		Logger: p.log, Observer: p.metrics, Headers: c.Headers, ProblemJSON: c.Problems,
		OnRejected: func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
			exchangeOf(r.Context()).policy = rejection.Policy
			rejected(w, r, rejection)
		},
	}
	for _, policy := range set.Policies {
		h, err := p.policy(policy)
		if err != nil {
			return o, c.Fault(policy.At, "%v", err)
		}
		if policy == set.Global {
			o.Global = &h
		} else {
			o.Policies = append(o.Policies, h)
		}
	}
	return o, nil
}

func (p *Proxy) policy(l *limits.Policy) (httplimit.Policy, error) {
	h := httplimit.Policy{Name: l.Name, MaxWait: l.MaxWait, Flow: l.Flows(), Status: l.Status, FailOpen: l.FailOpen, Shadow: l.Shadow}
	var err error
	if h.Limiter, err = l.Limiter(); err != nil {
		return h, err
	}
	if l.Cost != 1 {
		h.Permits = func(*http.Request) int { return l.Cost }
	}
	if l.Failures {
		h.Refund = refundsSuccess
	}
	if l.Settle != "" {
		h.Settle = (&settler{policy: l.Name, field: l.Settle, cost: l.Cost, say: p.say}).settle
	}
	upload, download := l.Bytes()
	if upload != nil {
		h.Upload = upload.Limiter()
	}
	if download != nil {
		h.Download = download.Limiter()
	}
	return h, nil
}

// refundsSuccess is the Refund of count: failures. It is not asked about a client that left before the end of the response:
// otherwise guesses would be free for clients that hang up early.
func refundsSuccess(_ *http.Request, status int) bool { return status < 400 || status > 499 }
