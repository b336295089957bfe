package httplimit

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/ioreader"
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
	adm := &admission{Context: r.Context(), terms: t, original: r}
	adm.asked = adm.one[:0]
	defer adm.end()
	if no := t.check(r, h.names, true, &adm.asked); no != nil {
		asked := adm.asked
		adm.asked = nil
		policy.End(asked, (*ask).Refund) // a rejected request holds nothing while its client is answered
		no.answer(w, r)
		return
	}
	w = adm.enter(w) //nolint:contextcheck // adm is made of r's
	adm.stage = serving
	h.next.ServeHTTP(w, &adm.request)
	adm.stage = served
}

// admission is a request on its way through one wrapper. It is the context of the request that the
// next handler gets, in which [LeaseFrom] and the wrappers further inside find it.
type admission struct {
	context.Context // of the original request

	terms    *terms        // one snapshot for all that the wrapper does
	original *http.Request // as the wrapper was given it
	asked    []ask         // the policies; it does not change while the next handler runs
	one      [1]ask        // where asked begins: most wrappers have one policy
	stage    stage
	rejected atomic.Bool        // a wrapper inside has rejected the request; it may be on another goroutine
	uploads  []*ioreader.Reader // the throttled body of the request
	response *response          // nil: the next handler writes past us
	request  http.Request       // as the next handler gets it
}

// stage is how far a request has come in its wrapper.
type stage uint8

const (
	asking  stage = iota // the next handler has not been called
	serving              // it runs, or has panicked
	served               // it has returned
)

type admissionKey struct{}

// admissionFrom returns the admission of the innermost wrapper; nil if there is none.
func admissionFrom(ctx context.Context) *admission {
	adm, _ := ctx.Value(admissionKey{}).(*admission)
	return adm
}

// Value returns the request's value for key.
func (adm *admission) Value(key any) any {
	if key == (admissionKey{}) {
		return adm
	}
	return adm.Context.Value(key)
}

// String keeps a caller that prints the context from reading its fields while they change.
func (adm *admission) String() string { return "httplimit: a request's context" }

// enter makes the request for the next handler, and returns the ResponseWriter for it.
func (adm *admission) enter(w http.ResponseWriter) http.ResponseWriter {
	r := adm.original
	if r.Trailer == nil && r.ContentLength < 0 && r.ProtoMajor == 1 {
		// net/http puts trailers that were not announced into the request that it made; with this
		// they get into copies of it too.
		r.Trailer = make(http.Header)
	}
	adm.request = *r.WithContext(adm)
	adm.throttleUpload()
	return adm.wrap(w)
}

// end gives back what the wrapper holds, even if the next handler, or a function of the user's,
// has panicked.
func (adm *admission) end() {
	if adm.stage != asking && adm.original.Pattern != adm.request.Pattern {
		adm.original.Pattern = adm.request.Pattern // a mux inside has matched it; middlewares outside report it
	}
	if adm.original.MultipartForm == nil && adm.request.MultipartForm != nil {
		adm.original.MultipartForm = adm.request.MultipartForm // net/http removes the files of the request that it made
	}
	if adm.stage == asking || adm.rejected.Load() {
		if outer := admissionFrom(adm.Context); outer != nil {
			outer.rejected.Store(true)
		}
		policy.End(adm.asked, (*ask).Refund)
		return
	}
	if len(adm.asked) == 1 && adm.asked[0].Plain() {
		adm.asked[0].Lease.Release()
		return
	}
	status, h := http.StatusOK, http.Header(nil)
	if adm.response != nil {
		h = adm.response.Header()
	}
	switch {
	case adm.response != nil && adm.response.status != 0:
		status = adm.response.status
	case adm.stage == serving:
		status = http.StatusInternalServerError
	}
	known := adm.Context.Err() == nil
	policy.End(adm.asked, func(a *ask) { a.Settle(&adm.request, outcome{status, h}, known) })
}
