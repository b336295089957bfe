package httplimit

import (
	"context"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/policy"
)

// ask is a policy that a request was asked about. It does not change once the request's handler
// is called.
type ask = policy.Ask[*http.Request, outcome]

// LeaseFrom returns the lease of a request, in its handler: one lease for all permits of the
// innermost wrapper, which is the handler that [Limits.Handler] or the middleware of
// [Limits.Policy] returned. A handler that has done the limited work, and continues with something
// else, may release it early; otherwise it is released when the handler returns. Its Permits are
// those of the policy that took most. LeaseFrom returns false if there is no lease.
func LeaseFrom(ctx context.Context) (core.Lease, bool) {
	adm := admissionFrom(ctx)
	if adm == nil {
		return core.Lease{}, false
	}
	return combine(adm.asked)
}

// combine returns one lease for those of all asks; false if there is none. The first
// metadata of a name counts.
func combine(asked []ask) (core.Lease, bool) {
	if len(asked) == 1 && !asked[0].Observed() { // no Observer is notified of its end
		return asked[0].Lease, asked[0].Lease.Acquired()
	}
	permits, found := 0, false
	var union []core.Metadata
	for _, a := range slices.Backward(asked) { // Grant has the later win
		if !a.Lease.Acquired() {
			continue
		}
		found = true
		permits = max(permits, a.Lease.Permits())
		for name, value := range a.Lease.Metadata() {
			union = append(union, core.NewMetadataKey[any](name).With(value))
		}
	}
	if !found {
		return core.Lease{}, false
	}
	return core.Grant(permits, func() { policy.End(asked, (*ask).Release) }, union...), true
}
