package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// costs are what a backend says that a request has cost, in fields of its answer that no client sees. The goroutine that
// serves the request has them to itself.
type costs struct {
	fields  []string
	header  http.Header // those fields of the answer's header; nil: there is no answer
	trailer http.Header // and of its trailer; nil: the answer has not ended
}

type costsKey struct{}

// withCosts returns next with the costs of its requests, if a policy settles by them. It must be around the handlers that
// ask policies.
func withCosts(policies []*policy, next http.Handler) http.Handler {
	var fields []string
	for _, p := range policies {
		if p.Settle != "" && !slices.Contains(fields, p.Settle) {
			fields = append(fields, p.Settle)
		}
	}
	if len(fields) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), costsKey{}, &costs{fields: fields})))
	})
}

// costsOf returns the costs of a request; nil: no policy settles by them.
func costsOf(ctx context.Context) *costs {
	c, _ := ctx.Value(costsKey{}).(*costs)
	return c
}

// hide removes the fields from a header.
func (c *costs) hide(h http.Header) {
	if c == nil {
		return
	}
	for _, f := range c.fields {
		delete(h, f)
	}
}

// take takes the fields off an answer: now those of the header, at its end those of the trailer.
func (c *costs) take(a *http.Response) {
	if c == nil {
		return
	}
	c.header = c.taken(a.Header)
	c.hide(a.Trailer) // as it was announced
	if a.StatusCode != http.StatusSwitchingProtocols {
		a.Body = &costBody{a.Body, a, c}
	}
}

// taken moves the fields from a header to another.
func (c *costs) taken(from http.Header) http.Header {
	to := make(http.Header)
	for _, f := range c.fields {
		if values := from[f]; len(values) > 0 {
			to[f] = values
		}
	}
	c.hide(from)
	return to
}

// costBody is the body of an answer that may have costs in its trailer.
type costBody struct {
	io.ReadCloser

	of *http.Response
	c  *costs
}

func (b *costBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && b.c.trailer == nil {
		b.c.trailer = b.c.taken(b.of.Trailer)
	}
	return n, err
}

// settler says what requests of a policy have cost.
type settler struct {
	policy, field string
	cost          int
	say           func(format string, args ...any)
	quiet         seldom
}

// settle is the Settle of httplimit: what the backend says, or -1 for the cost as it is. The trailer counts before the
// header.
func (s *settler) settle(r *http.Request, _ int, _ http.Header) int {
	c := costsOf(r.Context())
	if c == nil || c.header == nil {
		return -1 // no backend's answer
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
	if len(values) > 0 || c.trailer != nil { // else it might have come with the end of the answer
		s.complain(values)
	}
	return -1
}

const complainEvery = time.Minute

func (s *settler) complain(values []string) {
	others, ok := s.quiet.passes(complainEvery)
	switch {
	case !ok:
	case len(values) == 0:
		s.say("policy %s: an answer has no %s, so its request has cost %d (and %d others)", s.policy, s.field, s.cost, others)
	default:
		s.say("policy %s: the %s of an answer is %.80q, want a whole number from 0; its request has cost %d (and %d others)",
			s.policy, s.field, values, s.cost, others)
	}
}

// seldom lets something pass once in a while.
type seldom struct {
	until  atomic.Int64 // Unix nanoseconds
	others atomic.Int64 // what did not pass since
}

// passes reports whether something may pass that may do so once in that time, and how many did not before it.
func (s *seldom) passes(once time.Duration) (others int64, ok bool) {
	now := time.Now()
	if until := s.until.Load(); now.UnixNano() >= until && s.until.CompareAndSwap(until, now.Add(once).UnixNano()) {
		return s.others.Swap(0), true
	}
	s.others.Add(1)
	return 0, false
}
