package play

import (
	"context"
	"slices"

	"github.com/sluice-go/sluice/cmd/sluice/internal/simulate/engine"
	"github.com/sluice-go/sluice/spec"
)

// Result is the outcome of a limit.
type Result struct {
	Fault *Fault `json:"fault,omitempty"` // the error in the limit's text; then there is nothing else

	engine.Counts

	Limit   string       `json:"limit,omitempty"` // as String writes it
	Wait    engine.Waits `json:"wait"`            // of the requests that waited and were granted
	Queue   int          `json:"queue"`           // the maximum number of waiting requests
	End     float64      `json:"end"`             // when the last request was decided or had ended
	Permits int          `json:"permits"`

	// In each bin.
	Grants     []int `json:"grants,omitempty"`
	Rejections []int `json:"rejections,omitempty"`
	Waiting    []int `json:"waiting,omitempty"` // at most
	Left       []int `json:"left,omitempty"`    // at least; -1: unknown

	Keys  []engine.KeyRow  `json:"keys,omitempty"`  // those with the most rejections, if there are several keys
	Flows []engine.FlowRow `json:"flows,omitempty"` // those with the most requests, if Input has a flow

	Notes   []string `json:"notes,omitempty"`
	Go      string   `json:"go,omitempty"`
	YAML    string   `json:"yaml,omitempty"`
	Command string   `json:"command,omitempty"`
}

// playing is one limit while it is played. It observes the player.
type playing struct {
	engine.Stats

	fault   *Fault
	limit   spec.Limit
	player  *engine.Player
	end     int64
	permits int
	notes   []string
}

const lookEvery = 1 << 12 // requests

// play plays the traffic through a limit.
func play(ctx context.Context, text string, t *traffic) *playing {
	p := new(playing)
	var err error
	if p.limit, err = spec.Parse(text); err != nil {
		p.fault = newFault(text, err)
		return p
	}
	rule, err := engine.NewRule(p.limit)
	if err != nil {
		p.fault = newFault(text, err)
		return p
	}
	p.Series = engine.NewSeries(t.width())
	p.Series.End = t.span() + t.span()/4 + p.Series.Width
	p.PerKey = t.keys > 1
	p.player = engine.NewPlayer(p, 1)
	p.player.Zero = t.base
	steps := make([]engine.Step, t.keys)
	for i := range steps {
		steps[i] = engine.Step{ID: i, Rule: rule}
	}
	p.permits = p.player.Available(&steps[0])
	next := int64(0)     // the start of the next bin to look at
	var q engine.Request // one for all: each is done with when Play returns
	for i := range t.requests {
		r := &t.requests[i]
		if i%lookEvery == 0 && ctx.Err() != nil {
			break
		}
		for ; t.keys == 1 && next <= r.at; next += p.Series.Width {
			p.leave(next, p.player.AvailableAt(next, &steps[0]))
		}
		q = engine.Request{At: r.at, Took: r.took, Status: int(r.status), Steps: steps[r.key : r.key+1]}
		if r.flow != nil { // requests of one key may be of several flows, and keep their steps
			q.Steps = []engine.Step{{ID: int(r.key), Rule: rule, Flow: r.flow}}
		}
		p.player.Play(&q)
	}
	p.end = p.player.Finish()
	if p.limit.Kind == spec.Concurrency && !t.took {
		p.notes = append(p.notes, "The requests take no time, so a concurrency limit is held for none.")
	}
	return p
}

func (p *playing) leave(now int64, left int) {
	if p.limit.Kind != spec.Unlimited {
		p.Series.Leave(now, left)
	}
}

// Grant observes a grant.
func (p *playing) Grant(now int64, q *engine.Request, queued bool) {
	p.Stats.Grant(now, q, queued)
	p.leave(now, p.player.Available(&q.Steps[0]))
}

// Reject observes a rejection.
func (p *playing) Reject(now int64, q *engine.Request, s *engine.Step) {
	p.Stats.Reject(now, q, s)
	p.leave(now, p.player.Available(&q.Steps[0]))
}

const (
	maxKeys  = 5 // that the page lists
	maxFlows = 8
)

// rejectedKeys returns the keys that have rejections, those with the most first.
func (p *playing) rejectedKeys(plan *engine.Plan) []engine.KeyRow {
	return slices.DeleteFunc(p.TopKeys(plan, maxKeys), func(k engine.KeyRow) bool { return k.Rejected == 0 })
}

// result returns what the page shows.
func (p *playing) result(in Input, plan *engine.Plan) Result {
	if p.fault != nil {
		return Result{Fault: p.fault}
	}
	r := Result{
		Counts: p.Counts, Limit: p.limit.String(), Wait: p.Waits.Waits(), End: seconds(p.end), Permits: p.permits,
		Keys: p.rejectedKeys(plan), Flows: p.TopFlows(plan, maxFlows), Notes: p.notes,
		Grants:     column(p.Series, func(b engine.Bin) int { return b.Grants }),
		Rejections: column(p.Series, func(b engine.Bin) int { return b.Rejections }),
		Waiting:    column(p.Series, func(b engine.Bin) int { return b.Queue }),
	}
	for _, n := range r.Waiting {
		r.Queue = max(r.Queue, n)
	}
	if p.limit.Kind != spec.Unlimited {
		r.Left = column(p.Series, func(b engine.Bin) int { return b.Left })
	}
	r.Go, r.YAML, r.Command = goCode(r.Limit, in.Key), yaml(p.limit, in.Key, in.Flow, p.Waits.Most), command(p.limit, in)
	return r
}

func column(s *engine.Series, of func(engine.Bin) int) []int {
	values := make([]int, len(s.Bins))
	for i, b := range s.Bins {
		values[i] = of(b)
	}
	return values
}
