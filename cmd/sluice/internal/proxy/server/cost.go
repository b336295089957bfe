package server

import (
	"net/http"
	"strconv"
)

// takeCosts moves the fields in which the backend says what the request has cost from a header or trailer to the exchange.
func (x *exchange) takeCosts(from http.Header) {
	for _, f := range x.endpoint.settles {
		if x.costs == nil {
			x.costs = make(http.Header)
		}
		if values := from[f]; len(values) > 0 {
			x.costs[f] = values
		}
		delete(from, f) // also a trailer that is only announced
	}
}

// settler says what requests of a policy have cost.
type settler struct {
	policy, field string
	cost          int
	complaints    *seldom
}

// settle is the Settle of httplimit: what the backend says, or -1 for the cost as it is.
func (s *settler) settle(r *http.Request, _ int, _ http.Header) int {
	x := exchangeOf(r.Context())
	if x.costs == nil {
		return -1 // no backend's response
	}
	values := x.costs[s.field]
	if len(values) == 1 {
		if n, err := strconv.Atoi(values[0]); err == nil && n >= 0 {
			return n
		}
	}
	switch {
	case len(values) > 0:
		s.complaints.say("policy %s: %s of a response is %.80q, want a whole number of at least 0; charged the default cost of %d", s.policy, s.field, values, s.cost)
	case x.ended: // else it might have come with the end of the response
		s.complaints.say("policy %s: response has no %s header; charged the default cost of %d", s.policy, s.field, s.cost)
	}
	return -1
}
