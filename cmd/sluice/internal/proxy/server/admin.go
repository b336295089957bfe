package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/spec"
)

// admin serves the people and programs that look after the proxy.
func (p *Proxy) admin() http.Handler {
	mux := service.NewAdmin(&p.draining, p.metrics.registry)
	mux.HandleFunc("GET /limits", p.guarded(func(w http.ResponseWriter, _ *http.Request) {
		all := make(map[string]policyReport)
		set := p.state.Load().limits
		for _, policy := range set.Policies {
			all[policy.Name] = report(policy)
		}
		for _, l := range set.Connections {
			all["listen/"+l.Name()] = policyReport{Key: l.Key(), Limit: l.Terms().String(), State: []limits.State{l.State()}}
		}
		service.WriteJSON(w, all)
	}))
	mux.HandleFunc("GET /limits/{name}", p.guarded(p.get))
	mux.HandleFunc("PUT /limits/{name}", p.guarded(p.put))
	mux.HandleFunc("POST /limits/{name}/reset", p.guarded(p.reset))
	return mux
}

// guarded returns next for requests that no page in someone's browser can have sent.
func (p *Proxy) guarded(next http.HandlerFunc) http.HandlerFunc {
	return service.Guard(p.state.Load().config.Admin, next)
}

// policyReport is what /limits says of a policy.
type policyReport struct {
	Key      string         `json:"key,omitempty"`
	Limit    string         `json:"limit,omitempty"`  // if there is one
	Limits   []string       `json:"limits,omitempty"` // if there are several
	Cost     int            `json:"cost,omitempty"`   // if it is not 1
	Settle   string         `json:"settle,omitempty"`
	Shadow   bool           `json:"shadow,omitempty"`
	Upload   string         `json:"upload,omitempty"`
	Download string         `json:"download,omitempty"`
	State    []limits.State `json:"state,omitempty"` // of each of them, in this order, and of all overrides
}

func report(p *limits.Policy) policyReport {
	t := policyReport{Key: p.Key.String(), Settle: p.Settle, Shadow: p.Shadow}
	for _, l := range p.Requests() {
		t.Limits = append(t.Limits, l.Terms().String())
	}
	if len(t.Limits) == 1 {
		t.Limit, t.Limits = t.Limits[0], nil
	}
	if p.Cost != 1 {
		t.Cost = p.Cost
	}
	if p.Upload != nil {
		t.Upload = p.Upload.String()
	}
	if p.Download != nil {
		t.Download = p.Download.String()
	}
	for _, l := range p.Limits() {
		t.State = append(t.State, l.State())
	}
	if c, ok := p.OverrideCounts(); ok {
		t.State = append(t.State, limits.State{Of: "overrides", Partitions: &c.Live, Overflowed: &c.Overflowed})
	}
	return t
}

// keyReport is what /limits/NAME?key=K says of a key.
type keyReport struct {
	Key   []string       `json:"key"`
	State []limits.State `json:"state"` // of each of the policy's limits
}

// get handles GET /limits/{name}, and with ?key=VALUE, one for each part of the key, what that key has left.
func (p *Proxy) get(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := query["key"]
	if len(key) == 0 {
		p.writeReport(w, name)
		return
	}
	of, values, err := p.state.Load().limits.Of(name, key)
	if err != nil {
		fail(w, name, err)
		return
	}
	t := keyReport{Key: key, State: make([]limits.State, len(of))}
	for i, l := range of {
		if t.State[i], err = l.StateOf(values); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	service.WriteJSON(w, t)
}

func (p *Proxy) writeReport(w http.ResponseWriter, name string) {
	policy, err := p.state.Load().limits.Policy(name)
	if err != nil {
		fail(w, name, err)
		return
	}
	service.WriteJSON(w, report(policy))
}

// fail responds to a request about a policy of that name with an error.
func fail(w http.ResponseWriter, name string, err error) {
	switch {
	case errors.Is(err, limits.ErrNoPolicy):
		http.Error(w, fmt.Sprintf("no policy is named %q", name), http.StatusNotFound)
	case errors.Is(err, limits.ErrStore):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// reset handles POST /limits/{name}/reset?key=VALUE: it resets the limiters of one key, or those of all keys if
// there is no key in the URL.
func (p *Proxy) reset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	key, err := service.ResetKey(r)
	if err != nil {
		fail(w, name, err)
		return
	}
	ctx := context.WithoutCancel(r.Context()) // half a reset is none
	n, err := p.state.Load().limits.Reset(ctx, p.id, name, key)
	if err != nil {
		fail(w, name, err)
		return
	}
	p.say("policy %s: reset %d limiters", name, n)
	service.WriteJSON(w, map[string]int{"reset": n})
}

// put changes the limit of a policy: {"limit": SPEC}, or {"limits": [SPEC, …]} for several.
func (p *Proxy) put(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Limit  *string  `json:"limit"`
		Limits []string `json:"limits"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	d.DisallowUnknownFields()
	err := d.Decode(&body)
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("unexpected data after the JSON object")
	}
	if err != nil {
		http.Error(w, fmt.Sprintf(`want {"limit": "100/s"}: %v`, err), http.StatusBadRequest)
		return
	}
	if (body.Limit == nil) == (len(body.Limits) == 0) {
		http.Error(w, `want "limit", or "limits" for several`, http.StatusBadRequest)
		return
	}
	if body.Limit != nil {
		body.Limits = []string{*body.Limit}
	}
	terms := make([]spec.Limit, len(body.Limits))
	var faults []error
	for i, text := range body.Limits {
		var err error
		terms[i], err = spec.Parse(text)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := r.PathValue("name")
	if err := p.change(name, terms); err != nil { //nolint:contextcheck // a change outlives its request
		fail(w, name, err)
		return
	}
	p.say("policy %s: limit changed to %s until the next reload", name, strings.Join(body.Limits, ", "))
	p.writeReport(w, name)
}
