package play

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
	"github.com/sluice-go/sluice/spec"
)

// Result is the outcome of a limit.
type Result struct {
	Fault *Fault `json:"fault,omitempty"` // the error in the limit's text; then there is nothing else

	engine.Counts

	Limit   string       `json:"limit,omitempty"` // limit as String writes it
	Wait    engine.Waits `json:"wait"`            // waits of the requests that waited and were granted
	Queue   int          `json:"queue"`           // the maximum number of waiting requests
	End     float64      `json:"end"`             // when the last request was decided or had ended
	Permits int          `json:"permits"`

	Bins []engine.Bin `json:"bins,omitempty"`

	Keys  []engine.KeyRow  `json:"keys,omitempty"`  // those with the most rejections, if there are several keys
	Flows []engine.FlowRow `json:"flows,omitempty"` // those with the most requests, if Input has a flow

	Notes   []string `json:"notes,omitempty"`
	Go      string   `json:"go,omitempty"`
	YAML    string   `json:"yaml,omitempty"`
	Command string   `json:"command,omitempty"`
}

const (
	lookEvery = 1 << 12 // requests
	maxKeys   = 5       // maximum number of keys that the page lists
	maxFlows  = 8
)

// play plays the traffic through limits.
func play(ctx context.Context, text string, t *traffic, in Input) Result {
	limits, plan, err := parse(text, t.plan)
	if err != nil {
		return Result{Fault: newFault(text, err)}
	}
	stats := engine.Stats{Series: engine.NewSeries(t.width()), PerKey: t.plan.Keys() > 1}
	stats.Series.End = t.span() + t.span()/4 + stats.Series.Width
	player := engine.NewPlayer(&stats, engine.Scaled(1))
	player.Zero = t.base
	limited := !cli.Unlimited(limits)
	if limited {
		player.Decided = func(now int64, q *engine.Request, _ bool) { stats.Series.Leave(now, player.Available(q)) }
	}
	first := plan.Again(&t.requests[0])
	permits := player.Available(&first)
	next := int64(0) // the start of the next bin to look at
	for i := range t.requests {
		q := plan.Again(&t.requests[i])
		if i%lookEvery == 0 && ctx.Err() != nil {
			break
		}
		for ; limited && !stats.PerKey && next <= q.At; next += stats.Series.Width {
			stats.Series.Leave(next, player.AvailableAt(next, &first))
		}
		player.Play(&q)
	}
	r := Result{
		End: seconds(player.Finish()), Counts: stats.Counts, Limit: limits.String(), Wait: stats.Waits.Waits(), Permits: permits,
		Bins: stats.Series.Bins, Flows: stats.TopFlows(plan, maxFlows),
		Keys: slices.DeleteFunc(stats.TopKeys(plan, maxKeys), func(k engine.KeyRow) bool { return k.Rejected == 0 }),
		Go:   goCode(limits, in.Key), YAML: yaml(limits, in.Key, in.Flow, stats.Waits.Most), Command: command(limits, in),
	}
	for _, b := range r.Bins {
		r.Queue = max(r.Queue, b.Queue)
	}
	if !t.took && has(limits, func(l spec.Limit) bool { return l.Kind == spec.Concurrency }) {
		r.Notes = []string{"The requests take no time, so a concurrency limit is held for none."}
	}
	return r
}

// parse reads limits, as the other commands do, and returns them with the plan of a traffic under them.
func parse(text string, p *engine.Plan) (spec.Limits, *engine.Plan, error) {
	limits, err := spec.ParseLimits(text)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range limits {
		if err := cli.NoBytes(spec.Limits{l}, "requests"); err != nil {
			return nil, nil, fmt.Errorf("%q %w", l, err)
		}
	}
	plan, err := p.Under(limits)
	return limits, plan, err
}

func has(limits spec.Limits, what func(l spec.Limit) bool) bool {
	return slices.ContainsFunc(limits, what)
}
