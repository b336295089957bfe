package server

import (
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
)

// route sets what serves requests under the limits of next.
func (p *Proxy) route(next *state) error {
	o := httplimit.Options{
		Logger: p.log, Observer: p.metrics, Headers: next.config.Headers, ProblemJSON: next.config.Problems,
		OnRejected: func(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
			exchangeOf(r.Context()).policy = rejection.Policy
			rejected(w, r, rejection)
		},
	}
	byName := make(map[string]*limits.Policy)
	for _, l := range next.limits.Policies {
		h := p.policy(l)
		byName[l.Name] = l
		if l == next.limits.Global {
			o.Global = &h
		} else {
			o.Policies = append(o.Policies, h)
		}
	}
	var limited *httplimit.Limits // not used without policies
	if len(next.limits.Policies) > 0 {
		var err error
		if limited, err = httplimit.New(o); err != nil {
			return next.config.Fault(next.config.Where(""), "%v", err)
		}
	}
	h := &router{mux: next.config.Mux, own: http.HandlerFunc(answerItself), keys: p.keys, underscores: next.config.Underscores}
	if o.Global != nil {
		h.own = limited.Handler(h.own)
	}
	for _, r := range next.config.Routes {
		e := &endpoint{next: p.forward}
		if len(r.Policies) > 0 {
			e.next = limited.Policy(r.Policies...)(e.next)
		}
		if !r.Exempt && o.Global != nil {
			e.next = limited.Handler(e.next)
			e.add(next.limits.Global)
		}
		for _, name := range r.Policies {
			e.add(byName[name])
		}
		h.endpoints = append(h.endpoints, e)
	}
	next.handler = h
	return nil
}

// policy returns the limits of a policy as httplimit has them.
func (p *Proxy) policy(l *limits.Policy) httplimit.Policy {
	h := httplimit.Policy{Name: l.Name, MaxWait: l.MaxWait, Flow: l.Flows(), Status: l.Status, FailOpen: l.FailOpen, Shadow: l.Shadow}
	if requests := l.Requests(); requests != nil {
		h.Limiter = requests.Limiter()
	}
	if l.Cost != 1 {
		h.Cost = func(*http.Request) int { return l.Cost }
	}
	if l.Failures {
		h.Refund = refundsSuccess
	}
	if l.Settle != "" {
		h.Settle = p.settle(l)
	}
	upload, download := l.Bytes()
	if upload != nil {
		h.Upload = upload.Limiter()
	}
	if download != nil {
		h.Download = download.Limiter()
	}
	return h
}

// refundsSuccess is the Refund of count: failures. It is not called if the client disconnected before the end of the
// response. Otherwise guesses would be free for clients that disconnect early.
func refundsSuccess(_ *http.Request, status int) bool { return status < 400 || status > 499 }

// endpoint serves the requests of a route.
type endpoint struct {
	next http.Handler // under the policies of the route

	policies         []*limits.Policy // policies that apply, the global one first
	clientControlled []config.KeyPart // parts of keys that clients choose
	settles          []string         // fields of responses by which the policies settle
	throttling       []*limits.Policy // whose limits on bytes hold for upgraded connections
}

// noEndpoint is the endpoint of requests that no backend gets.
var noEndpoint endpoint

// add notes what a policy of the endpoint, or nil, needs of a request and its response.
func (e *endpoint) add(p *limits.Policy) {
	if p == nil {
		return
	}
	if p.Settle != "" {
		e.settles = append(e.settles, p.Settle)
	}
	e.policies = append(e.policies, p)
	if p.Shadow {
		return
	}
	for _, part := range slices.Concat(p.Key, p.Flow) {
		if part.IsClientControlled() {
			e.clientControlled = append(e.clientControlled, part)
		}
	}
	if upload, download := p.Bytes(); upload != nil || download != nil {
		e.throttling = append(e.throttling, p)
	}
}

// isAmbiguous reads the keys of a request, and reports whether a backend may read another value than the limits. To policies in shadow
// that does not matter.
func (e *endpoint) isAmbiguous(r *http.Request, keys *limits.Keys) bool {
	ambiguous := false
	for _, p := range e.policies {
		ambiguous = keys.Prepare(r, p) && !p.Shadow || ambiguous
	}
	return ambiguous
}

// router serves the requests of routes.
type router struct {
	mux         *route.Mux
	endpoints   []*endpoint  // endpoints of its routes
	own         http.Handler // serves all other requests, under the global policy: see answerItself
	keys        *limits.Keys
	underscores bool // headers may have some in their names
}

func (h *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.screen(r)
	found := h.mux.Match(r)
	r.Pattern = found.Pattern // for keys
	x := exchangeOf(r.Context())
	switch {
	case r.RequestURI == "*":
		x.answer = http.HandlerFunc(answerStar)
	case found.Answer != nil:
		x.answer = found.Answer
	case h.endpoints[found.Route].isAmbiguous(r, h.keys):
		x.answer = http.HandlerFunc(badRequest)
	default:
		x.endpoint = h.endpoints[found.Route]
		x.endpoint.next.ServeHTTP(w, r)
		return
	}
	closeBehind(w, r)
	h.own.ServeHTTP(w, r)
}

// screen drops the headers of a request that do not pass, before anything reads them: the limits count by what the backend gets.
func (h *router) screen(r *http.Request) {
	config.DropHopByHop(r.Header)
	trusted := h.keys.Trusts(r)
	for name := range r.Header {
		if !config.PassesHeader(name, h.underscores) || !trusted && config.SpeaksForClient(name) {
			delete(r.Header, name)
		}
	}
}

// answerItself responds to a request that no backend gets.
func answerItself(w http.ResponseWriter, r *http.Request) {
	exchangeOf(r.Context()).answer.ServeHTTP(w, r)
}

// answerStar responds to a request for *, which is not a path: OPTIONS asks whether there is a server.
func answerStar(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusOK)
		return
	}
	badRequest(w, r)
}

func badRequest(w http.ResponseWriter, r *http.Request) { answer(w, r, http.StatusBadRequest) }
