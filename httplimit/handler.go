package httplimit

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/policy"
)

// handler is a wrapper: a handler that asks policies, and then calls the next handler.
type handler struct {
	limits *Limits
	next   http.Handler
	names  []string // of its policies
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := h.limits.terms.Load()
	if !t.have(h.names) || t.Skip != nil && t.Skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	p := &passage{Context: r.Context(), terms: t, came: r}
	p.asked = p.one[:0]
	defer p.end()
	if no := t.check(r, h.names, true, &p.asked); no != nil {
		asked := p.asked
		p.asked = nil
		policy.End(asked, (*ask).Refund) // a rejected request holds nothing while its client is answered
		no.answer(w, r)
		return
	}
	w = p.enter(w) //nolint:contextcheck // p is made of r's
	p.stage = serving
	h.next.ServeHTTP(w, &p.request)
	p.stage = served
}

// passage is a request on its way through one wrapper. It is the context of the request that the
// next handler gets, in which [LeaseFrom] and the wrappers further inside find it.
type passage struct {
	context.Context // of the request as it came

	terms    *terms        // one snapshot for all that the wrapper does
	came     *http.Request // as it came
	asked    []ask         // the policies; it does not change while the next handler runs
	one      [1]ask        // where asked begins: most wrappers have one policy
	stage    stage
	rejected atomic.Bool  // a wrapper inside has rejected the request; it may be on another goroutine
	response *response    // nil: the next handler writes past us
	request  http.Request // as the next handler gets it
}

// stage is how far a request has come in its wrapper.
type stage uint8

const (
	asking  stage = iota // the next handler has not been called
	serving              // it runs, or has panicked
	served               // it has returned
)

type passageKey struct{}

// passageFrom returns the passage of the innermost wrapper; nil if there is none.
func passageFrom(ctx context.Context) *passage {
	p, _ := ctx.Value(passageKey{}).(*passage)
	return p
}

// Value returns the request's value for key.
func (p *passage) Value(key any) any {
	if key == (passageKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// String keeps whoever prints the context from reading its fields while they change.
func (p *passage) String() string { return "httplimit: a request's context" }

// enter makes the request for the next handler, and returns the ResponseWriter for it.
func (p *passage) enter(w http.ResponseWriter) http.ResponseWriter {
	r := p.came
	if r.Trailer == nil && r.ContentLength < 0 && r.ProtoMajor == 1 {
		// net/http puts trailers that were not announced into the request that it made; with this
		// they get into copies of it too.
		r.Trailer = make(http.Header)
	}
	p.request = *r.WithContext(p)
	p.throttleUpload()
	return p.wrap(w)
}

// end gives back what the wrapper holds, even if the next handler, or a function of the user's,
// has panicked.
func (p *passage) end() {
	if p.came.MultipartForm == nil && p.request.MultipartForm != nil {
		p.came.MultipartForm = p.request.MultipartForm // net/http removes the files of the request that it made
	}
	if p.stage == asking || p.rejected.Load() {
		if outer := passageFrom(p.Context); outer != nil {
			outer.rejected.Store(true)
		}
		policy.End(p.asked, (*ask).Refund)
		return
	}
	if len(p.asked) == 1 && p.asked[0].Plain() {
		p.asked[0].Lease.Release()
		return
	}
	status, h := http.StatusOK, http.Header(nil)
	if p.response != nil {
		h = p.response.Header()
	}
	switch {
	case p.response != nil && p.response.status != 0:
		status = p.response.status
	case p.stage == serving:
		status = http.StatusInternalServerError
	}
	known := p.Context.Err() == nil
	policy.End(p.asked, func(a *ask) { a.Settle(&p.request, outcome{status, h}, known) })
}
