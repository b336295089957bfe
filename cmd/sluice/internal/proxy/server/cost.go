package server

import (
	"net/http"
	"strconv"
	"time"

	admit "github.com/sluice-go/sluice/internal/policy"
)

// costs are what a backend says that a request has cost, in fields of its response that no client sees.
type costs struct {
	fields http.Header // of the header, or of the trailer where both have one; nil: there is no response
	ended  bool        // the response has ended
}

// hideCosts removes the fields from a header.
func (x *exchange) hideCosts(h http.Header) {
	if x.endpoint == nil {
		return
	}
	for _, f := range x.endpoint.settles {
		delete(h, f)
	}
}

// takeCosts moves the fields from a header to the costs.
func (x *exchange) takeCosts(from http.Header) {
	if x.costs.fields == nil {
		x.costs.fields = make(http.Header)
	}
	if x.endpoint == nil {
		return
	}
	for _, f := range x.endpoint.settles {
		if values := from[f]; len(values) > 0 {
			x.costs.fields[f] = values
			delete(from, f)
		}
	}
}

// settler says what requests of a policy have cost.
type settler struct {
	policy, field string
	cost          int
	say           func(format string, args ...any)
	quiet         admit.Sometimes
}

// settle is the Settle of httplimit: what the backend says, or -1 for the cost as it is.
func (s *settler) settle(r *http.Request, _ int, _ http.Header) int {
	c := &exchangeOf(r.Context()).costs
	if c.fields == nil {
		return -1 // no backend's response
	}
	values := c.fields[s.field]
	if len(values) == 1 {
		if n, err := strconv.Atoi(values[0]); err == nil && n >= 0 {
			return n
		}
	}
	if len(values) > 0 || c.ended { // else it might have come with the end of the response
		s.complain(values)
	}
	return -1
}

const complainEvery = time.Minute

func (s *settler) complain(values []string) {
	others, ok := s.quiet.Allow(complainEvery)
	switch {
	case !ok:
	case len(values) == 0:
		s.say("policy %s: response has no %s header; charged the default cost of %d (%d similar messages suppressed)", s.policy, s.field, s.cost, others)
	default:
		s.say("policy %s: %s of a response is %.80q, want a whole number of at least 0; charged the default cost of %d (%d similar messages suppressed)",
			s.policy, s.field, values, s.cost, others)
	}
}
