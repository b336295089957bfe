package resilience

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/internal/backdoor"
)

// PipelineOptions name a pipeline, for the [Source] of events and errors.
type PipelineOptions struct {
	Name     string // "": none
	Instance string // distinguishes pipelines of one name; "": none
}

// Pipeline returns an executor that runs a function by way of all of es. The first is the
// outermost: it is asked first, and sees what the others return. It returns an error if es is
// empty or one of them is nil.
//
// The events and errors of a strategy name the innermost pipeline that contains it. A strategy
// that the function calls is in no pipeline.
func Pipeline(o PipelineOptions, es ...Executor) (Executor, error) {
	if len(es) == 0 {
		return nil, errors.New("resilience: a pipeline of no executors")
	}
	var errs []error
	for i, e := range es {
		if backdoor.IsNil(e) {
			errs = append(errs, fmt.Errorf("resilience: executor %d of the pipeline is nil", i))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &pipeline{o, slices.Clone(es)}, nil
}

type pipeline struct {
	PipelineOptions
	es []Executor
}

// Do implements [Executor].
func (p *pipeline) Do(ctx context.Context, f func(context.Context) error) error {
	return p.from(ctx, 0, f)
}

// from is Do from the executor i inwards.
func (p *pipeline) from(ctx context.Context, i int, f func(context.Context) error) error {
	if i == len(p.es) {
		return f(ctx)
	}
	inner := func(ctx context.Context) error { return p.from(ctx, i+1, f) }
	if s, ok := p.es[i].(*Strategy); ok {
		return s.run(ctx, &p.PipelineOptions, inner)
	}
	// A strategy in a user's executor is in the pipeline too, and its context says so. The
	// function's context says what it said outside.
	outside := pipelineOf(ctx)
	return p.es[i].Do(withPipeline(ctx, &p.PipelineOptions), func(ctx context.Context) error {
		return inner(withPipeline(ctx, outside))
	})
}

type pipelineKey struct{}

func withPipeline(ctx context.Context, p *PipelineOptions) context.Context {
	return context.WithValue(ctx, pipelineKey{}, p)
}

// pipelineOf returns the pipeline that the context is in, or nil.
func pipelineOf(ctx context.Context) *PipelineOptions {
	p, _ := ctx.Value(pipelineKey{}).(*PipelineOptions)
	return p
}
