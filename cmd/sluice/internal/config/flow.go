package config

import (
	"slices"
	"strconv"

	"github.com/sluice-go/sluice/cmd/sluice/internal/yamlconf"
	"github.com/sluice-go/sluice/core"
)

const maxWeight = 1 << 20

// readWeights reads the weights of a policy whose flow has been read.
func (p *Policy) readWeights(n yamlconf.Node, key string) {
	if len(p.Flow) != 1 {
		n.Fault("weights requires a flow of one part, such as flow: header:X-Api-Key")
		return
	}
	p.Weights = make(map[string]int)
	for _, pair := range n.Pairs(key) {
		weight := 1
		number(&weight, 1, maxWeight)(pair.Value, "the weight of "+strconv.Quote(pair.Key))
		name, err := p.Flow[0].value(pair.Key)
		if err != nil {
			pair.At.Fault("weights: %v", err)
			continue
		}
		if _, twice := p.Weights[name]; twice {
			pair.At.Fault("weights: %q is here twice", pair.Key)
			continue
		}
		p.Weights[name] = weight
	}
}

// checkFlow finds a flow in which no request waits.
func (p *Policy) checkFlow(fault faultFunc) {
	fair := slices.ContainsFunc(p.all(), func(l Limit) bool { return l.Order == core.FairShare })
	switch at := p.at["flow"]; {
	case !p.has("flow") || len(p.all()) == 0:
	case !fair:
		fault(at, "flow requires a limit with fair-share, such as concurrency 50 queue 200 fair-share")
	case p.MaxWait == 0:
		fault(at, "flow requires max-wait, because only requests that wait have an order; add one, such as max-wait: 10s")
	}
}
