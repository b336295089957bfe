package server

import (
	"net/http"
	"strconv"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

// takeCosts moves the fields in which the backend says what the request has cost from a header or trailer to the exchange.
func (x *exchange) takeCosts(from http.Header) {
	for _, f := range x.endpoint.settles {
		if values := from[f]; len(values) > 0 {
			if x.costs == nil {
				x.costs = make(http.Header)
			}
			x.costs[f] = values
		}
		delete(from, f) // also a trailer that is only announced
	}
}

// settle returns the Settle of a policy: what the backend says that a request has cost, or -1 for the cost as it is.
func (p *Proxy) settle(l *limits.Policy) func(*http.Request, int, http.Header) int {
	complaints := new(service.Seldom)
	return func(r *http.Request, _ int, _ http.Header) int {
		x := exchangeOf(r.Context())
		values := x.costs[l.Settle]
		if len(values) == 1 {
			if n, err := strconv.Atoi(values[0]); err == nil && n >= 0 {
				return n
			}
		}
		switch {
		case len(values) > 0:
			p.saySeldom(complaints, everyMinute, "policy %s: %s of a response is %.80q, want a whole number of at least 0; charged the default cost of %d",
				l.Name, l.Settle, values, l.Cost)
		case x.ended: // else it might have come with the end of the response
			p.saySeldom(complaints, everyMinute, "policy %s: response has no %s header; charged the default cost of %d", l.Name, l.Settle, l.Cost)
		}
		return -1
	}
}
