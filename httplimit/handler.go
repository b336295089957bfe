package httplimit

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/policy"
	"github.com/sluice-go/sluice/ioreader"
)

// handler is a wrapper: a handler that has policies decide, and then calls the next handler.
type handler struct {
	limits *Limits
	next   http.Handler
	names  []string // of its policies
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.limits.set.Load()
	if !s.Applies(r, h.names) {
		h.next.ServeHTTP(w, r)
		return
	}
	adm := &admission{original: r}
	adm.policies.Snapshot = s
	var answer *response                  // nil if the next handler writes to w itself
	defer func() { adm.end(w, answer) }() //nolint:contextcheck // adm is made of r's
	if rejected := adm.policies.Admit(r.Context(), r, policy.Wait, h.names...); rejected != nil {
		adm.rejected.Store(&unanswered) // unless the answer returns
		if newRejection(rejected).answer(w, r) {
			adm.rejected.Store(markOf(w.Header()))
		}
		return
	}
	if answer = adm.enter(w); answer != nil { //nolint:contextcheck // as above
		w = answer.writer()
	}
	adm.stage = serving
	h.next.ServeHTTP(w, &adm.request)
	adm.stage = served
}

// admission is a request on its way through one wrapper. It is the context of the request that the
// next handler gets, in which [LeaseFromContext] and the wrappers further inside find it. It is the one
// allocation of a request.
type admission struct {
	original *http.Request // as the wrapper was given it
	policies policy.Admission[*http.Request, *ownPolicy]
	stage    stage
	// rejected is the mark of the rejection's header, once this wrapper or one inside has rejected the
	// request. It may be set on another goroutine.
	rejected atomic.Pointer[string]
	request  http.Request // as the next handler gets it
}

// stage is how far a request has come in its wrapper.
type stage uint8

const (
	deciding stage = iota // the next handler has not been called
	serving               // it runs, or has panicked
	served                // it has returned
)

// unanswered is the mark of a rejection that was not answered, because its client has gone.
var unanswered string

// markOf returns the mark of a response's header: the address of a value that a rejection sets. Copies of
// the header, such as that of http.TimeoutHandler, have the same values, so the mark tells whether a
// response is a rejection, whatever is between the wrapper that rejected and the one that asks.
func markOf(h http.Header) *string {
	if v := h["Cache-Control"]; len(v) > 0 {
		return &v[0]
	}
	return nil
}

type admissionKey struct{}

// admissionFrom returns the admission of the innermost wrapper; nil if there is none.
func admissionFrom(ctx context.Context) *admission {
	adm, _ := ctx.Value(admissionKey{}).(*admission)
	return adm
}

// Deadline, Done, Err and Value are those of the original request's context, but for the admission itself.

func (adm *admission) Deadline() (time.Time, bool) { return adm.original.Context().Deadline() }
func (adm *admission) Done() <-chan struct{}       { return adm.original.Context().Done() }
func (adm *admission) Err() error                  { return adm.original.Context().Err() }

func (adm *admission) Value(key any) any {
	if key == (admissionKey{}) {
		return adm
	}
	return adm.original.Context().Value(key)
}

// String keeps a caller that prints the context from reading its fields while they change.
func (adm *admission) String() string { return "httplimit: a request's context" }

// enter makes the request for the next handler, and the response around w; nil unless there are header fields
// to remove, bodies to throttle, or a status that a policy wants to know.
func (adm *admission) enter(w http.ResponseWriter) *response {
	r := adm.original
	if r.Trailer == nil && r.ContentLength < 0 && r.ProtoMajor == 1 {
		// net/http puts trailers that were not announced into the request that it made; with this
		// they get into copies of it too.
		r.Trailer = make(http.Header)
	}
	adm.request = *r.WithContext(adm)
	var uploads []*ioreader.Reader
	var downloads []throttle
	settles := false
	for i := range adm.policies.Decisions {
		d := &adm.policies.Decisions[i]
		p := d.Policy.Own
		settles = settles || d.Lease.Acquired() && (p.Refund != nil || p.Settle != nil)
		if p.Upload != nil && !p.Shadow && hasBody(r) {
			body := upload(r, adm.request.Body, p.throttle(p.Upload, r))
			adm.request.Body = body
			uploads = append(uploads, body)
		}
		if p.Download != nil && !p.Shadow && r.Method != http.MethodHead {
			downloads = append(downloads, p.throttle(p.Download, r))
		}
	}
	if !settles && uploads == nil && downloads == nil && headersOf(adm.policies.Decisions) == RetryAfterOnly {
		return nil
	}
	answer := &response{
		ResponseWriter: w, body: w, uploads: uploads,
		quota: setQuota(w.Header(), adm.policies.Decisions, false),
	}
	if downloads != nil {
		answer.body = newDownload(r, w, downloads)
	}
	return answer
}

// end returns what the wrapper holds, even if the next handler, or a function of the user's, has
// panicked. w is the wrapper's, and answer is what enter returned.
func (adm *admission) end(w http.ResponseWriter, answer *response) {
	if adm.stage != deciding && adm.original.Pattern != adm.request.Pattern {
		adm.original.Pattern = adm.request.Pattern // a mux inside has matched it; middlewares outside report it
	}
	if adm.original.MultipartForm == nil && adm.request.MultipartForm != nil {
		adm.original.MultipartForm = adm.request.MultipartForm // net/http removes the files of the request that it made
	}
	mark := adm.rejected.Load()
	if mark == nil && adm.stage == deciding { // a function of the user's has panicked
		mark = &unanswered
	}
	if adm.stage == deciding || mark != nil && (mark == &unanswered || mark == markOf(w.Header())) {
		if outer := admissionFrom(adm.original.Context()); outer != nil {
			outer.rejected.Store(mark)
		}
		adm.policies.Undo()
		return
	}
	if answer == nil {
		adm.policies.Release()
		return
	}
	status, h := answer.status, answer.Header()
	switch {
	case status != 0:
	case adm.stage == serving:
		status = http.StatusInternalServerError
	default:
		status = http.StatusOK
	}
	left := adm.Err() != nil // then the client may not have got this status
	adm.policies.End(func(p *ownPolicy) (refund bool, cost int) {
		switch {
		case p.Refund != nil && !left && p.Refund(&adm.request, status):
			return true, 0
		case p.Settle != nil:
			return false, p.Settle(&adm.request, status, h)
		}
		return false, -1
	})
}
