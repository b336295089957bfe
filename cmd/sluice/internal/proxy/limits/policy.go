package limits

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/config"
	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/partition"
)

// Policy is a policy of the file and its limits.
type Policy struct {
	config.Policy

	keys       *Keys
	requests   []*Limit
	overridden [][]*Limit // of each override, in place of requests
	upload     *Limit     // nil: none
	download   *Limit
}

// Limits returns the limits of p, but for those of overrides.
func (p *Policy) Limits() []*Limit { return p.withBytes(p.requests) }

// Requests returns the limits on requests, but for those of overrides.
func (p *Policy) Requests() []*Limit { return p.requests }

// Bytes returns the limits on what requests transfer; nil: there is none.
func (p *Policy) Bytes() (upload, download *Limit) { return p.upload, p.download }

// limitsOf returns the limits of p for a key.
func (p *Policy) limitsOf(key []string) []*Limit {
	if i, ok := p.Overrides.Find(key); ok {
		return p.withBytes(p.overridden[i])
	}
	return p.Limits()
}

func (p *Policy) withBytes(requests []*Limit) []*Limit {
	all := slices.Clone(requests)
	for _, l := range []*Limit{p.upload, p.download} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// Limiter returns what decides about requests, or nil if only bytes are limited.
func (p *Policy) Limiter() (httplimit.Limiter, error) {
	others, err := chain(p.requests)
	if len(p.overridden) == 0 || err != nil {
		return others, err
	}
	o := &overridden{values: p.keys.values(p.Key), overrides: &p.Overrides, others: others}
	for _, limits := range p.overridden {
		own, err := chain(limits)
		if err != nil {
			return nil, err
		}
		o.own = append(o.own, own)
	}
	return o, nil
}

// chain returns one limiter for several limits; nil: there are none.
func chain(limits []*Limit) (httplimit.Limiter, error) {
	switch len(limits) {
	case 0:
		return nil, nil
	case 1:
		return limits[0].Limiter(), nil
	}
	all := make([]httplimit.Limiter, len(limits))
	for i, l := range limits {
		all[i] = l.Limiter()
	}
	return partition.Chain(all...)
}

// Flows returns what tells on whose behalf a request waits; nil: all are one flow.
func (p *Policy) Flows() func(*http.Request) core.Flow {
	if len(p.Flow) == 0 {
		return nil
	}
	values := p.keys.values(p.Flow)
	return func(r *http.Request) core.Flow {
		key := config.JoinKey(values(r))
		return core.Flow{Key: key, Weight: p.Weights[key]}
	}
}

// OverrideCounts returns the counts of all overrides of p together. The file may have secrets as their keys, so nothing
// tells of one alone. It reports false if there are none.
func (p *Policy) OverrideCounts() (sum partition.Counts, ok bool) {
	for _, l := range slices.Concat(p.overridden...) {
		if l.keyed == nil {
			continue // unlimited
		}
		c := l.keyed.keys.Counts()
		sum.Live += c.Live
		sum.Created += c.Created
		sum.Dropped += c.Dropped
		sum.Overflowed += c.Overflowed
	}
	return sum, len(p.overridden) > 0
}

// label is what metrics call a limit of p.
func (p *Policy) label(l *Limit) string {
	switch {
	case l.id.what != requests:
		return p.Name + "/" + l.id.what
	case len(p.requests) > 1:
		return fmt.Sprintf("%s/%s-%d", p.Name, l.id.kind, l.id.nth+1)
	}
	return p.Name
}
