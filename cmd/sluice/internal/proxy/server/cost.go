package server

import (
	"net/http"
	"strconv"
	"time"

	admit "github.com/sluice-go/sluice/internal/policy"
)

// costs are what a backend says that a request has cost, in fields of its response that no client sees.
type costs struct {
	header  http.Header // those fields of the response's header; nil: there is no response
	trailer http.Header // and of its trailer; nil: the response has not ended
}

// hideCosts removes the fields from a header.
func (x *exchange) hideCosts(h http.Header) {
	for _, f := range x.costFields() {
		delete(h, f)
	}
}

// costFields returns the names of the fields.
func (x *exchange) costFields() []string {
	if x.endpoint == nil {
		return nil
	}
	return x.endpoint.settles
}

// takeCosts moves the fields from a header to another.
func (x *exchange) takeCosts(from http.Header) http.Header {
	to := make(http.Header)
	for _, f := range x.costFields() {
		if values := from[f]; len(values) > 0 {
			to[f] = values
		}
	}
	x.hideCosts(from)
	return to
}

// settler says what requests of a policy have cost.
type settler struct {
	policy, field string
	cost          int
	say           func(format string, args ...any)
	quiet         admit.Sometimes
}

// settle is the Settle of httplimit: what the backend says, or -1 for the cost as it is. The trailer counts before the
// header.
func (s *settler) settle(r *http.Request, _ int, _ http.Header) int {
	c := &exchangeOf(r.Context()).costs
	if c.header == nil {
		return -1 // no backend's response
	}
	values := c.trailer[s.field]
	if len(values) == 0 {
		values = c.header[s.field]
	}
	if len(values) == 1 {
		if n, err := strconv.Atoi(values[0]); err == nil && n >= 0 {
			return n
		}
	}
	if len(values) > 0 || c.trailer != nil { // else it might have come with the end of the response
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
