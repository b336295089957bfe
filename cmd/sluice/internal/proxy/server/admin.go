package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/proxy/limits"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/spec"
)

// admin serves the people and programs that look after the proxy.
func (p *Proxy) admin() http.Handler {
	mux := service.NewAdmin(&p.draining, p.metrics.registry)
	for pattern, handle := range map[string]func(*http.Request) (any, error){
		"GET /limits":               func(*http.Request) (any, error) { return p.reports(), nil },
		"GET /limits/{name}":        p.get,
		"PUT /limits/{name}":        p.put,
		"POST /limits/{name}/reset": p.reset,
	} {
		mux.HandleFunc(pattern, service.Guard(p.state.Load().config.Admin, writes(handle))) // not for pages in browsers
	}
	return mux
}

// writes returns what responds with what handle returns: a value in JSON, or an error.
func writes(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch value, err := handle(r); {
		case err == nil:
			service.WriteJSON(w, value)
		case errors.Is(err, limits.ErrNoPolicy):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, limits.ErrNotNotified):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case shared.IsStore(err):
			http.Error(w, shared.Reason(err), http.StatusServiceUnavailable)
		default:
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
}

// reports returns what GET /limits says.
func (p *Proxy) reports() map[string]policyReport {
	all := make(map[string]policyReport)
	set := p.state.Load().limits
	for _, policy := range set.Policies {
		all[policy.Name] = report(policy)
	}
	for _, l := range set.Connections {
		all["listen/"+l.Name] = policyReport{Key: l.Key(), Limit: l.Limit(), State: l.States()}
	}
	return all
}

// policyReport is what /limits says of a policy.
type policyReport struct {
	Key    string         `json:"key,omitempty"`
	Limit  string         `json:"limit,omitempty"`  // if there is one
	Limits []string       `json:"limits,omitempty"` // if there are several
	State  []limits.State `json:"state,omitempty"`  // state of each of them, in this order, or of all by key; of upload and download
}

func report(p *limits.Policy) policyReport {
	t := policyReport{Key: p.Key.String(), State: p.States()}
	for _, l := range p.Limits {
		t.Limits = append(t.Limits, l.String())
	}
	if len(t.Limits) == 1 {
		t.Limit, t.Limits = t.Limits[0], nil
	}
	return t
}

// keyReport is what /limits/NAME?key=K says of a key.
type keyReport struct {
	Key   []string       `json:"key"`
	State []limits.State `json:"state"` // state of each of the policy's limits
}

// get handles GET /limits/{name}, and with ?key=VALUE, one for each part of the key, what that key has left.
func (p *Proxy) get(r *http.Request) (any, error) {
	name := r.PathValue("name")
	key, err := service.Key(r)
	if err != nil {
		return nil, err
	}
	now := p.state.Load().limits
	if len(key) == 0 {
		policy, err := now.Policy(name)
		if err != nil {
			return nil, err
		}
		return report(policy), nil
	}
	if p.redisDown.Load() {
		return nil, fmt.Errorf("%w: what the key has left is not known", shared.ErrUnreachable)
	}
	states, err := now.StatesOf(name, key)
	return keyReport{key, states}, err
}

// reset handles POST /limits/{name}/reset?key=VALUE: it resets the limiters of one key, or those of all keys if
// there is no key in the URL.
func (p *Proxy) reset(r *http.Request) (any, error) {
	name := r.PathValue("name")
	key, err := service.ResetKey(r)
	if err != nil {
		return nil, err
	}
	ctx := context.WithoutCancel(r.Context()) // half a reset is none
	n, err := p.state.Load().limits.Reset(ctx, p.id, name, key)
	if err != nil {
		if errors.Is(err, limits.ErrNotNotified) {
			p.say("policy %s: %v", name, err)
		}
		return nil, err
	}
	p.say("policy %s: %s", name, service.Resets(n, key))
	return map[string]int{"reset": n}, nil
}

// put changes the limit of a policy: {"limit": SPEC}, or {"limits": [SPEC, …]} for several.
func (p *Proxy) put(r *http.Request) (any, error) {
	var body struct {
		Limit  *spec.Limits  `json:"limit"`
		Limits []spec.Limits `json:"limits"`
	}
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<10))
	d.DisallowUnknownFields()
	err := d.Decode(&body)
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("unexpected data after the JSON object")
	}
	if err == nil && (body.Limit == nil) == (len(body.Limits) == 0) {
		err = errors.New("there is no limit, or both a limit and limits")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("a JSON %s in the wrong place", wrong.Value)
		if wrong.Field != "" {
			err = fmt.Errorf("%q is a JSON %s", wrong.Field, wrong.Value)
		}
	}
	if err != nil {
		return nil, fmt.Errorf(`%w; want {"limit": "100/s"}, or {"limits": ["100/s", "1000/h"]}`, err)
	}
	if body.Limit != nil {
		body.Limits = []spec.Limits{*body.Limit}
	}
	name := r.PathValue("name")
	if err := p.change(name, slices.Concat(body.Limits...)); err != nil {
		return nil, err
	}
	policy, err := p.state.Load().limits.Policy(name)
	if err != nil {
		return nil, err
	}
	t := report(policy)
	p.say("policy %s: limit changed to %s until the next reload", name, cmp.Or(t.Limit, strings.Join(t.Limits, ", ")))
	return t, nil
}
