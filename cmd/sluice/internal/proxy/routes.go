package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
	"github.com/sluice-go/sluice/httplimit"
)

// route sets what serves requests and connections under d.
func (p *proxy) route(next *state, d *draft) error {
	o, err := d.options(httplimit.Options{Logger: p.log, Observer: p.metrics})
	if err != nil {
		return err
	}
	next.tcp, err = forTCP(o)
	if err != nil {
		return err
	}
	limits, err := httplimit.New(o)
	if err != nil {
		return d.config.Fault(config.Position{Line: 1, Column: 1}, "%v", err)
	}
	byName := make(map[string]*policy)
	for _, policy := range d.policies {
		byName[policy.Name] = policy
	}
	mux := config.NewMux(d.config, func(r config.Route) http.Handler {
		if r.Exempt {
			return p.forward
		}
		var policies []*policy
		if next.global != nil {
			policies = append(policies, next.global)
		}
		for _, name := range r.Policies {
			policies = append(policies, byName[name])
		}
		h := withBandwidth(policies, p.forward)
		if len(r.Policies) > 0 {
			h = limits.Policy(r.Policies...)(h)
		}
		return unambiguous(policies, withCosts(policies, limits.Handler(h)), limits.Handler(badRequest))
	})
	next.handler = &router{mux, limits.Handler(noRoute{mux}), d.config.Underscores}
	return nil
}

// unambiguous returns next for requests of whose keys a backend reads the same values. The others are served by rest.
func unambiguous(policies []*policy, next, rest http.Handler) http.Handler {
	var parts []config.KeyPart
	for _, p := range policies {
		for _, part := range slices.Concat(p.Key, p.Flow) {
			if part.IsChosen() && !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	if len(parts) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, part := range parts {
			if isAmbiguous(r, part) {
				rest.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

var badRequest = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, http.StatusBadRequest) })

// router serves the requests of routes, and all others under the global policy.
type router struct {
	mux         *route.Mux[http.Handler]
	others      http.Handler
	underscores bool // header fields may have some in their names
}

func (h *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.underscores {
		dropUnderscores(r.Header)
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

// dropUnderscores removes the fields with underscores in their names. Programs behind CGI and its relatives cannot tell
// X_Forwarded_For from X-Forwarded-For, which the proxy sets, nor a key's field from one that no limit looks at.
func dropUnderscores(h http.Header) {
	for name := range h {
		if strings.Contains(name, "_") {
			delete(h, name)
		}
	}
}

// noRoute answers requests without a route: with a redirect, 400, 404 or 405. The target * is none of a backend's paths:
// OPTIONS asks for it whether there is a server.
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

// ServeHTTP serves a request under the configuration in force when it came.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.state.Load().handler.ServeHTTP(w, r)
}
