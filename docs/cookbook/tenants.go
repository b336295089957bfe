package cookbook

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/partition"
	"github.com/sluice-go/sluice/spec"
)

// Tenants limits each tenant by the plan that the tenant pays for.
type Tenants struct {
	limiters *partition.Keyed[string, string]
}

// NewTenants returns Tenants. The function plan returns the limit of a tenant, such as "10/s" for the
// free plan or "1000/s burst 5000" for a paid one.
func NewTenants(plan func(tenant string) spec.Limit) (*Tenants, error) {
	limiters, err := partition.New(partition.Options[string, string]{
		Key: func(tenant string) string { return tenant },
		New: func(tenant string) (core.Limiter, error) { return plan(tenant).New(tenant) },
	})
	return &Tenants{limiters}, err
}

// Allow returns nil if the tenant may make a request now. Otherwise its error is a *core.RejectedError
// with the time to retry.
func (t *Tenants) Allow(ctx context.Context, tenant string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	lease := t.limiters.TryAcquire(tenant, 1)
	return lease.Err()
}

// Change applies a new plan, which the function given to NewTenants already returns. Permits that the
// tenant used under the old plan stay used.
func (t *Tenants) Change(tenant string, plan spec.Limit) error {
	limiter, ok := t.limiters.Get(tenant)
	if !ok {
		return nil // idle: the next request creates a limiter with the new plan
	}
	if err := plan.Update(limiter); !errors.Is(err, core.ErrClosed) {
		return err
	}
	return nil // the limiter was dropped a moment ago because it was idle
}
