package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/cmd/sluice/internal/guard"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/spec"
)

// admin serves the people and programs that look after the proxy.
func (p *proxy) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if p.draining.Load() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", p.metrics.handler())
	mux.HandleFunc("GET /limits", p.guarded(func(w http.ResponseWriter, _ *http.Request) {
		all := make(map[string]told)
		for _, policy := range p.state.Load().policies {
			all[policy.Name] = tell(policy)
		}
		for _, l := range p.state.Load().doors {
			all["listen/"+l.id.policy] = tellDoor(l)
		}
		writeJSON(w, all)
	}))
	mux.HandleFunc("GET /limits/{name}", p.guarded(p.get))
	mux.HandleFunc("PUT /limits/{name}", p.guarded(p.put))
	mux.HandleFunc("POST /limits/{name}/reset", p.guarded(p.postReset))
	return mux
}

// guarded returns next for requests that no page in somebody's browser can have sent.
func (p *proxy) guarded(next http.HandlerFunc) http.HandlerFunc {
	return guard.Admin(p.state.Load().config.Admin, next)
}

// told is what /limits says of a policy.
type told struct {
	Key      string   `json:"key,omitempty"`
	Limit    string   `json:"limit,omitempty"`  // if there is one
	Limits   []string `json:"limits,omitempty"` // if there are several
	Cost     int      `json:"cost,omitempty"`   // if it is not 1
	Settle   string   `json:"settle,omitempty"`
	Shadow   bool     `json:"shadow,omitempty"`
	Upload   string   `json:"upload,omitempty"`
	Download string   `json:"download,omitempty"`
	State    []figure `json:"state,omitempty"` // of each of them, in this order, and of all overrides

	Rejected []rejections `json:"rejected,omitempty"` // of one policy: the keys that were rejected most
}

// figure is the state of a limit: without a key its permits, with a key its partitions.
type figure struct {
	Of         string  `json:"of"`
	Limit      *int    `json:"limit,omitempty"`
	Available  *int    `json:"available,omitempty"`
	Queued     *int    `json:"queued,omitempty"`
	Granted    *uint64 `json:"granted,omitempty"`
	Rejected   *uint64 `json:"rejected,omitempty"`
	Partitions *int    `json:"partitions,omitempty"`
	Overflowed *uint64 `json:"overflowed,omitempty"`
}

func tell(p *policy) told {
	t := told{Key: p.Key.String(), Settle: p.Settle, Shadow: p.Shadow}
	for _, l := range p.requests {
		t.Limits = append(t.Limits, l.terms.Load().String())
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
	for _, l := range p.all() {
		t.State = append(t.State, figureOf(l))
	}
	if c, ok := p.overrideCounts(); ok {
		t.State = append(t.State, figure{Of: "overrides", Partitions: &c.Live, Overflowed: &c.Overflowed})
	}
	return t
}

// tellDoor is tell for a limit on connections.
func tellDoor(l *limit) told {
	f, refused := figureOf(l), l.refused.Load()
	f.Rejected = &refused
	return told{Key: l.id.key, Limit: l.terms.Load().String(), State: []figure{f}}
}

func figureOf(l *limit) figure {
	f := figure{Of: l.id.what}
	switch {
	case l.one != nil:
		f.setStatistics(l.one.Statistics())
	case l.count != nil:
		c := l.count()
		f.Partitions, f.Overflowed = &c.Live, &c.Overflowed
	}
	return f
}

// toldKey is what /limits/NAME?key=K says of a key.
type toldKey struct {
	Key   []string `json:"key"`
	State []figure `json:"state"` // of each of the policy's limits
}

// get answers GET /limits/{name}, and with ?key=VALUE, one for each part of the key, what that key has left.
func (p *proxy) get(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := query["key"]
	if len(key) == 0 {
		p.tellOne(w, name)
		return
	}
	limits, values, err := p.resettable(name, key)
	switch {
	case errors.Is(err, errNoPolicy):
		http.Error(w, fmt.Sprintf("no policy is named %q", name), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t := toldKey{Key: key, State: make([]figure, len(limits))}
	for i, l := range limits {
		if t.State[i], err = l.figureOf(values); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	writeJSON(w, t)
}

// figureOf returns the state of the limiter of a key. A key that has none is as good as new, unless another proxy on the
// same server of Redis has one.
func (m *limit) figureOf(values []config.Value) (figure, error) {
	f := figure{Of: m.id.what}
	terms := m.terms.Load()
	if terms.Kind == spec.Unlimited {
		return f, nil
	}
	l := m.live(values)
	if l == nil {
		made, err := m.follow(m.names(values)[0])
		if err != nil {
			return f, err
		}
		defer func() { _ = made.Close() }()
		l = made
	}
	f.setStatistics(l.Statistics())
	return f, nil
}

func (f *figure) setStatistics(s core.Statistics) {
	f.Limit, f.Available, f.Queued, f.Granted, f.Rejected = &s.Limit, &s.Available, &s.Queued, &s.Granted, &s.Rejected
}

func (p *proxy) tellOne(w http.ResponseWriter, name string) {
	for _, policy := range p.state.Load().policies {
		if policy.Name == name {
			t := tell(policy)
			t.Rejected = policy.frequent.most()
			writeJSON(w, t)
			return
		}
	}
	http.Error(w, fmt.Sprintf("no policy is named %q", name), http.StatusNotFound)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client is gone
}

// put changes the limit of a policy: {"limit": SPEC}, or {"limits": [SPEC, …]} for several.
func (p *proxy) put(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Limit  *string  `json:"limit"`
		Limits []string `json:"limits"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	d.DisallowUnknownFields()
	err := d.Decode(&asked)
	if _, end := d.Token(); err == nil && !errors.Is(end, io.EOF) {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		http.Error(w, fmt.Sprintf(`want {"limit": "100/s"}: %v`, err), http.StatusBadRequest)
		return
	}
	if (asked.Limit == nil) == (len(asked.Limits) == 0) {
		http.Error(w, `want "limit", or "limits" for several`, http.StatusBadRequest)
		return
	}
	if asked.Limit != nil {
		asked.Limits = []string{*asked.Limit}
	}
	limits := make([]spec.Limit, len(asked.Limits))
	var faults []error
	for i, text := range asked.Limits {
		var err error
		limits[i], err = spec.Parse(text)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := r.PathValue("name")
	switch err := p.change(name, limits); { //nolint:contextcheck // a change outlives its request
	case errors.Is(err, errNoPolicy):
		http.Error(w, fmt.Sprintf("no policy is named %q", name), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		p.say("policy %s is limited to %s now", name, strings.Join(asked.Limits, ", "))
		p.tellOne(w, name)
	}
}
