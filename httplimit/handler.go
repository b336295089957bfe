package httplimit

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/sluice-go/sluice/internal/limit/policy"
	"github.com/sluice-go/sluice/ioreader"
)

// handler is a wrapper: a handler that applies policies, and then calls the next handler.
type handler struct {
	limits *Limits
	next   http.Handler
	names  []string // names of its policies
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.limits.load()
	if s.Global != nil && !h.limits.applied.Load() {
		s.Warn(r.Context(), s.Global.Name, "the global policy limits nothing, because no Handler applies it")
	}
	if !s.Applies(r, h.names) {
		h.next.ServeHTTP(w, r)
		return
	}
	adm := &admission{Context: r.Context(), original: r}
	adm.policies.Snapshot = s
	var wrapped *response // nil if the next handler gets w itself
	defer func() { adm.end(wrapped) }()
	if rejected := adm.policies.Admit(r.Context(), r, policy.Wait, h.names...); rejected != nil {
		newRejection(rejected).respond(w, r)
		return
	}
	if wrapped = adm.enter(w); wrapped != nil {
		w = wrapped.writer()
	}
	adm.stage = serving
	h.next.ServeHTTP(w, &adm.request)
	adm.stage = served
	if wrapped != nil && wrapped.cutOff(r.Context()) && underServer(r.Context()) {
		// If the handler just returns, the server marks the end of the response. The client may still read it, as in
		// [Rejection.respond].
		panic(http.ErrAbortHandler)
	}
}

// admission is a request on its way through one wrapper. It is also the context of the request that the next handler
// gets, where [LeaseFromContext] and inner wrappers find it, so that a request needs only one allocation.
type admission struct {
	context.Context // the original request's

	original *http.Request // request as the wrapper was given it
	policies policy.Admission[*http.Request, *ownPolicy]
	stage    stage
	rejected atomic.Bool  // whether a wrapper inside has rejected the request, maybe on another goroutine
	request  http.Request // request as the next handler gets it
}

// stage is how far a request has come in its wrapper.
type stage uint8

const (
	deciding stage = iota // the next handler has not been called
	serving               // it runs, or has panicked
	served                // it has returned
)

type admissionKey struct{}

// admissionFrom returns the admission of the innermost wrapper, or nil if there is none.
func admissionFrom(ctx context.Context) *admission {
	adm, _ := ctx.Value(admissionKey{}).(*admission)
	return adm
}

// Value also finds the admission itself.
func (adm *admission) Value(key any) any {
	if key == (admissionKey{}) {
		return adm
	}
	return adm.Context.Value(key)
}

// String keeps code that prints the context from reading the fields while they change.
func (adm *admission) String() string { return "httplimit: a request's context" }

// enter prepares the request for the next handler. It returns a response around w, or nil if w need not be wrapped:
// there are no headers to remove, no bodies to throttle, and no policies that need the status.
func (adm *admission) enter(w http.ResponseWriter) *response {
	r := adm.original
	if r.Trailer == nil && r.ContentLength < 0 && r.ProtoMajor == 1 {
		// net/http adds trailers that were not announced to the request that it created. If both share the map, the
		// copy gets them too.
		r.Trailer = make(http.Header)
	}
	adm.request = *r.WithContext(adm)
	var uploads []*ioreader.Reader
	var downloads []throttle
	settles, unread := false, false
	for i := range adm.policies.Decisions {
		d := &adm.policies.Decisions[i]
		p := d.Policy.Own
		settles = settles || d.Lease.Acquired() && (p.Refund != nil || p.Settle != nil)
		if p.Upload != nil && !p.Shadow && hasBody(r) {
			body := upload(r, adm.request.Body, p.throttle(p.Upload, r))
			adm.request.Body = body
			uploads = append(uploads, body)
		}
		unread = unread || !p.Shadow && (p.MaxWait != 0 || p.Upload != nil)
		if p.Download != nil && !p.Shadow && r.Method != http.MethodHead {
			downloads = append(downloads, p.throttle(p.Download, r))
		}
	}
	if unread && r.ProtoMajor == 2 && hasBody(r) && sharesWindow(r.Context()) {
		adm.policies.Snapshot.Warn(r.Context(), adm.policies.Decisions[0].Policy.Name,
			"HTTP/2 requests that wait can keep other bodies from arriving; set Server.HTTP2 as the documentation of httplimit says")
	}
	if !settles && uploads == nil && downloads == nil && headersOf(adm.policies.Decisions) == RetryAfterOnly {
		return nil
	}
	wrapped := &response{
		ResponseWriter: w, body: w, uploads: uploads,
		quota: setQuota(w.Header(), adm.policies.Decisions, false),
	}
	if downloads != nil {
		wrapped.body = download(r.Context(), w, downloads)
	}
	return wrapped
}

// end returns the permits that the wrapper holds, also if the next handler or a function of the user's has panicked.
// wrapped is the writer that enter returned.
func (adm *admission) end(wrapped *response) {
	if adm.stage != deciding && adm.original.Pattern != adm.request.Pattern {
		adm.original.Pattern = adm.request.Pattern // an inner mux has matched it; outer middleware reports it
	}
	if adm.original.MultipartForm == nil && adm.request.MultipartForm != nil {
		adm.original.MultipartForm = adm.request.MultipartForm // net/http removes the files of the request that it created
	}
	if adm.stage == deciding || adm.rejected.Load() {
		if outer := admissionFrom(adm.Context); outer != nil {
			outer.rejected.Store(true)
		}
		adm.policies.Undo()
		return
	}
	if wrapped == nil {
		adm.policies.Release()
		return
	}
	status, h := wrapped.status, wrapped.Header()
	switch {
	case status != 0:
	case adm.stage == serving:
		status = http.StatusInternalServerError
	default:
		status = http.StatusOK
	}
	left := adm.Err() != nil // then the client may not have got this status, and the permits stay taken
	adm.policies.End(func(p *ownPolicy) (refund bool, cost int) {
		switch {
		case left:
		case p.Refund != nil && p.Refund(&adm.request, status):
			return true, 0
		case p.Settle != nil:
			return false, p.Settle(&adm.request, status, h)
		}
		return false, -1
	})
}
