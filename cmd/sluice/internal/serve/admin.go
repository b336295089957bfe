package serve

import (
	"errors"
	"net/http"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/rlslimit"
	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
	"github.com/sluice-go/sluice/cmd/sluice/internal/shared"
	"github.com/sluice-go/sluice/redislimit"
)

// handler returns the handler of the admin address.
func (s *server) handler() http.Handler {
	mux := service.NewAdmin(&s.draining, s.metrics.registry)
	guarded := func(next http.HandlerFunc) http.HandlerFunc { return service.Guard(s.options.admin, next) }
	mux.HandleFunc("GET /limits", guarded(func(w http.ResponseWriter, _ *http.Request) { service.WriteJSON(w, rules{s.service}.byName()) }))
	mux.HandleFunc("POST /limits/{name...}", guarded(s.reset))
	return mux
}

// byName returns the rules by DOMAIN/RULE, with the hits of all their values. Several rules may have one name: a.b has that of b
// below a. They are reported together.
func (s rules) byName() map[string]rlslimit.Rule {
	all := make(map[string]rlslimit.Rule)
	for _, r := range s.service.Rules() {
		for _, counts := range r.Details {
			r.Counts = sum(r.Counts, counts)
		}
		name := r.Domain + "/" + r.Name
		if other, twice := all[name]; twice {
			r.Counts = sum(other.Counts, r.Counts)
			r.Keys += other.Keys
			r.Overflowed += other.Overflowed
			r.Shadow = r.Shadow || other.Shadow
			if r.Limit != other.Limit {
				r.Limit = strings.Trim(other.Limit+", "+r.Limit, ", ")
			}
		}
		all[name] = r
	}
	return all
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
		http.Error(w, strings.TrimPrefix(err.Error(), "rlslimit: "), http.StatusNotFound)
	case errors.Is(err, redislimit.ErrStore):
		http.Error(w, shared.Reason(err), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		s.say("rule %s: %s", name, service.Resets(n, key))
		service.WriteJSON(w, map[string]int{"reset": n})
	}
}
