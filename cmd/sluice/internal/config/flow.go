package config

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-go/sluice/core"
)

const mostWeight = 1 << 20

// readWeights reads the weights of a policy whose flow has been read.
func (p *Policy) readWeights(r *reader, n *yaml.Node) {
	switch _, said := p.at["flow"]; {
	case !said:
		r.fault(p.at["weights"], "weights are those of flows, and the policy has none: add flow, such as flow: header:X-Api-Key")
		return
	case len(p.Flow) != 1:
		if len(p.Flow) > 1 {
			r.fault(p.at["weights"], "weights are for a flow of one part, and this one has %d", len(p.Flow))
		}
		return
	}
	p.Weights = make(map[string]int)
	for _, pair := range r.pairs(n, "weights") {
		v, err := p.Flow[0].value(pair.key)
		if err != nil {
			r.fault(pair.at, "weights: %v", err)
			continue
		}
		text, ok := r.text(pair.value, "weights")
		w, err := strconv.Atoi(text)
		name := JoinKey([]Value{v})
		_, twice := p.Weights[name]
		switch {
		case !ok:
		case err != nil || w < 1 || w > mostWeight:
			r.fault(position(pair.value), "the weight of %q is %q, want a number from 1 to %d", pair.key, text, mostWeight)
		case twice:
			r.fault(pair.at, "weights: %q is here twice", pair.key)
		default:
			p.Weights[name] = w
		}
	}
}

// checkFlow finds a flow by which no request waits.
func (p *Policy) checkFlow(r *reader) {
	at, said := p.at["flow"]
	fair := slices.ContainsFunc(p.all(), func(l placed) bool { return l.limit.Order == core.FairShare })
	switch {
	case !said || len(p.all()) == 0:
	case !fair:
		r.fault(at, "flow is for limits with fair-share, and the policy has none: add it to a limit, such as concurrency 50 queue 200 fair-share")
	case p.MaxWait == 0:
		r.fault(at, "flow is about requests that wait but the policy has no max-wait; add one, such as max-wait: 10s")
	}
}
