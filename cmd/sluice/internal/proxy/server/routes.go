package server

import (
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
)

// route sets what serves requests and connections under the limits of next.
func (p *Proxy) route(next *state) error {
	o, err := p.options(next.config, next.limits)
	if err != nil {
		return err
	}
	limited, err := httplimit.New(o)
	if err != nil {
		return next.config.Fault(next.config.Where(""), "%v", err)
	}
	byName := make(map[string]*limits.Policy)
	for _, policy := range next.limits.Policies {
		byName[policy.Name] = policy
	}
	mux := config.NewMux(next.config, func(r config.Route) http.Handler {
		if r.Exempt {
			return p.forward
		}
		var policies []*limits.Policy
		if next.limits.Global != nil {
			policies = append(policies, next.limits.Global)
		}
		for _, name := range r.Policies {
			policies = append(policies, byName[name])
		}
		h := p.forward
		if len(r.Policies) > 0 {
			h = limited.Policy(r.Policies...)(h)
		}
		return newEndpoint(policies, limited.Handler(h), limited.Handler(badRequest))
	})
	next.handler = &router{mux, limited.Handler(noRoute{mux}), next.config.Underscores}
	return nil
}

// endpoint serves the requests of a route.
type endpoint struct {
	clientControlled []config.KeyPart // of keys: those that clients choose
	settles          []string         // fields of responses by which the policies settle
	throttling       []*limits.Policy // whose limits on bytes hold for upgraded connections

	next      http.Handler
	ambiguous http.Handler // serves requests of whose keys a backend may read other values
}

// newEndpoint returns an endpoint under policies.
func newEndpoint(policies []*limits.Policy, next, ambiguous http.Handler) *endpoint {
	e := &endpoint{next: next, ambiguous: ambiguous}
	for _, p := range policies {
		for _, part := range slices.Concat(p.Key, p.Flow) {
			if !p.Shadow && part.IsClientControlled() && !slices.Contains(e.clientControlled, part) {
				e.clientControlled = append(e.clientControlled, part)
			}
		}
		if p.Settle != "" && !slices.Contains(e.settles, p.Settle) {
			e.settles = append(e.settles, p.Settle)
		}
		if upload, download := p.Bytes(); !p.Shadow && (upload != nil || download != nil) {
			e.throttling = append(e.throttling, p)
		}
	}
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if slices.ContainsFunc(e.clientControlled, func(p config.KeyPart) bool { return limits.IsAmbiguous(r, p) }) {
		e.ambiguous.ServeHTTP(w, r)
		return
	}
	exchangeOf(r.Context()).endpoint = e
	e.next.ServeHTTP(w, r)
}

var badRequest = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, http.StatusBadRequest) })

// router serves the requests of routes, and all others under the global policy.
type router struct {
	mux         *route.Mux[http.Handler]
	others      http.Handler
	underscores bool // headers may have some in their names
}

func (h *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name := range r.Header {
		if !config.PassesHeader(name, h.underscores) {
			delete(r.Header, name)
		}
	}
	found := h.mux.Match(r)
	if found.Answer != nil || r.RequestURI == "*" {
		closeBehind(w, r)
		h.others.ServeHTTP(w, r)
		return
	}
	r.Pattern = found.Pattern // for keys
	found.Value.ServeHTTP(w, r)
}

// noRoute responds to requests without a route: with a redirect, 400, 404 or 405. The target * is none of a backend's paths:
// OPTIONS limited for it whether there is a server.
type noRoute struct{ mux *route.Mux[http.Handler] }

func (h noRoute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if found := h.mux.Match(r); found.Answer != nil && r.RequestURI != "*" {
		found.Answer.ServeHTTP(w, r)
		return
	}
	if r.RequestURI == "*" && r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusOK)
		return
	}
	badRequest(w, r)
}
