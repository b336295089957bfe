package cookbook

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// Tenants have a limit each, by the plan that they pay for.
type Tenants struct {
	limiters *partition.Keyed[string, string]
}

// NewTenants returns Tenants whose plan returns a tenant's limit, as it stands in a configuration:
// "10/s", or "1000/s burst 5000" for a tenant who pays.
func NewTenants(plan func(tenant string) spec.Limit) (*Tenants, error) {
	limiters, err := partition.New(partition.Options[string, string]{
		Key: func(tenant string) string { return tenant },
		New: func(tenant string) (core.Limiter, error) { return plan(tenant).New(tenant) },
	})
	return &Tenants{limiters}, err
}

// Allow returns nil, or when the tenant may come back: errors.As finds a *core.RejectedError.
func (t *Tenants) Allow(ctx context.Context, tenant string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	lease := t.limiters.TryAcquire(tenant, 1)
	return lease.Err()
}

// Change puts a new plan into force, which the function given to NewTenants already returns. What the
// tenant has used of the old plan stays used.
func (t *Tenants) Change(tenant string, plan spec.Limit) error {
	limiter, ok := t.limiters.Get(tenant)
	if !ok {
		return nil // idle: the next request makes a limiter
	}
	if err := plan.Update(limiter); !errors.Is(err, core.ErrClosed) {
		return err
	}
	return nil // dropped just now, because it was idle
}
