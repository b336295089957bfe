package cookbook

import (
	"io"
	"net/http"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// Tenants gives each tenant limits of its own, such as "fixed 1000/day tz Europe/Berlin, concurrency 5", which can
// change at any time.
type Tenants struct {
	own      sync.Map // tenant to spec.Limits; tenants that are not here have the standard limits
	limiters *partition.Keyed[*http.Request, string]
}

// NewTenants returns Tenants with standard limits.
func NewTenants(standard spec.Limits) (*Tenants, error) {
	t := new(Tenants)
	var err error
	t.limiters, err = partition.New(partition.Options[*http.Request, string]{
		Key: httplimit.ByHeader("X-Tenant"), // set by a gateway, because clients choose its value
		Update: func(tenant string, now core.Limiter) (core.Limiter, error) {
			limits := standard
			if own, ok := t.own.Load(tenant); ok {
				limits = own.(spec.Limits)
			}
			return limits.Apply(now, tenant)
		},
	})
	return t, err
}

// Change gives a tenant other limits, from the next request on; nil stands for the standard limits. What the tenant
// has used still counts in limits of a kind that stays.
func (t *Tenants) Change(tenant string, limits spec.Limits) error {
	if limits == nil {
		t.own.Delete(tenant)
	} else {
		t.own.Store(tenant, limits)
	}
	return t.limiters.Refresh(tenant) // calls Update
}

// Handler limits the requests to next.
func (t *Tenants) Handler(next http.Handler) (http.Handler, error) {
	policy := &httplimit.Policy{Name: "tenant", Limiter: t.limiters}
	limits, err := httplimit.New(httplimit.Options{Global: policy, Headers: httplimit.Draft11})
	if err != nil {
		return nil, err
	}
	return limits.Handler(next), nil
}

// Admin changes the limits of a tenant: PUT sets those in its body, and DELETE the standard ones. Put it behind a login, as
// mux.HandleFunc("/tenants/{tenant}", tenants.Admin).
func (t *Tenants) Admin(w http.ResponseWriter, r *http.Request) {
	var limits spec.Limits
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1000))
	if err == nil && r.Method != http.MethodDelete {
		err = limits.UnmarshalText(text)
	}
	if err == nil {
		err = t.Change(r.PathValue("tenant"), limits)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
