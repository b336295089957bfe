package serve

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/rlslimit"
)

// handler returns the handler of the admin address.
func (s *server) handler() http.Handler {
	mux := service.NewAdmin(&s.draining, s.metrics.registry)
	guarded := func(next http.HandlerFunc) http.HandlerFunc { return service.Guard(s.options.admin, next) }
	mux.HandleFunc("GET /limits", guarded(func(w http.ResponseWriter, _ *http.Request) { service.WriteJSON(w, s.all()) }))
	mux.HandleFunc("GET /limits/{name...}", guarded(func(w http.ResponseWriter, r *http.Request) {
		t, ok := s.all()[r.PathValue("name")]
		if !ok {
			http.Error(w, fmt.Sprintf("no rule is named %q", r.PathValue("name")), http.StatusNotFound)
			return
		}
		if r.URL.RawQuery != "" { // the numbers would look like those of a key
			http.Error(w, "unknown parameters; GET /limits/DOMAIN/RULE reports all keys of the rule together", http.StatusBadRequest)
			return
		}
		service.WriteJSON(w, t)
	}))
	mux.HandleFunc("POST /limits/{name...}", guarded(s.reset))
	return mux
}

// ruleReport is what /limits reports about a rule.
type ruleReport struct {
	Limit      string `json:"limit,omitempty"`
	Shadow     bool   `json:"shadow,omitempty"`
	Granted    uint64 `json:"granted"`
	Rejected   uint64 `json:"rejected"`
	Shadowed   uint64 `json:"shadowed,omitempty"`
	GivenBack  uint64 `json:"given_back,omitempty"`
	Unanswered uint64 `json:"unanswered,omitempty"`
	Available  *int   `json:"available,omitempty"` // nil unless the rule has one limiter, in this process
	Limiters   int    `json:"limiters"`
	Overflowed uint64 `json:"overflowed,omitempty"`
}

// all returns the rules by DOMAIN/RULE. Several rules may have one name: a.b has that of b below a. They are reported together.
func (s *server) all() map[string]ruleReport {
	all := make(map[string]ruleReport)
	for _, r := range s.service.Rules() {
		name := r.Domain + "/" + r.Name
		t := all[name]
		t.add(r)
		all[name] = t
	}
	return all
}

// add adds a rule to the report.
func (t *ruleReport) add(r rlslimit.Rule) {
	counts := r.Counts
	for _, c := range r.Details {
		counts = sum(counts, c)
	}
	switch {
	case t.Limit == "":
		t.Limit = r.Limit
	case r.Limit != "" && r.Limit != t.Limit:
		t.Limit += ", " + r.Limit
	}
	t.Shadow = t.Shadow || r.Shadow
	t.Granted += counts.Granted
	t.Rejected += counts.Rejected
	t.Shadowed += counts.Shadowed
	t.GivenBack += counts.GivenBack
	t.Unanswered += counts.Unanswered
	t.Limiters += r.Keys
	t.Overflowed += r.Overflowed
	if r.State != nil {
		t.Available = &r.State.Available
	}
	if t.Limiters != 1 {
		t.Available = nil
	}
}

// reset handles POST /limits/DOMAIN/RULE/reset?key=VALUE: it resets the limiter of a value, or all of the rule's limiters if
// the URL has no key. For a rule with several such values, key is given once per value, in order.
func (s *server) reset(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("name"), "/reset")
	if !ok {
		http.Error(w, "want POST /limits/DOMAIN/RULE/reset", http.StatusNotFound)
		return
	}
	key, err := service.ResetKey(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n, err := s.service.Reset(r.Context(), name, key...)
	switch {
	case errors.Is(err, rlslimit.ErrNoRule):
		http.Error(w, fmt.Sprintf("no rule is named %q", name), http.StatusNotFound)
	case errors.Is(err, redislimit.ErrStore):
		http.Error(w, shared.Reason(err), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		s.say("rule %s: %s", name, service.Resets(n, key))
		service.WriteJSON(w, map[string]int{"reset": n})
	}
}
