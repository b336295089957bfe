package goredis

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipelines sends commands. Those of a few callers have a connection each. Those of more callers are sent in pipelines,
// which do not wait for each other: with a server far away that would take two round trips.
type pipelines struct {
	client *redis.Client
	dials  *dials

	mu      sync.Mutex
	callers int       // that are in process
	next    *pipeline // not sent yet; nil: there is none
}

// pipeline is a number of commands that are sent together.
type pipeline struct {
	cmds     []redis.Cmder
	deadline time.Time     // the latest of its callers'
	done     chan struct{} // closed when it has been answered
	err      error         // of the pipeline as a whole
}

// few is how many callers have a connection each. Without pipelines BenchmarkTake/callers=64/keys=1000 of bench/stores
// takes as long again, and the server half as long again.
const few = 8

// process returns when the command has been answered, or ctx is done.
func (p *pipelines) process(ctx context.Context, cmd redis.Cmder) error {
	shared := p.enter(ctx, cmd)
	defer p.leave()
	if shared == nil {
		return p.dials.run(ctx, func(ctx context.Context) error { return p.client.Process(ctx, cmd) })
	}
	select {
	case <-shared.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := cmd.Err(); err == nil || answered(err) {
		return err
	}
	return shared.err
}

// enter returns the pipeline that the command is sent in; nil: it has a connection of its own.
func (p *pipelines) enter(ctx context.Context, cmd redis.Cmder) *pipeline {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers++
	deadline, ok := ctx.Deadline()
	if p.callers <= few || !ok {
		return nil
	}
	if p.next == nil {
		p.next = &pipeline{done: make(chan struct{})}
		go p.send(p.next) //nolint:contextcheck // it is of many callers
	}
	p.next.cmds = append(p.next.cmds, cmd)
	if deadline.After(p.next.deadline) {
		p.next.deadline = deadline
	}
	return p.next
}

func (p *pipelines) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.callers--
}

// send sends the next pipeline. It yields first, so that a caller that is about to call still joins it.
func (p *pipelines) send(next *pipeline) {
	defer close(next.done)
	runtime.Gosched()
	p.mu.Lock()
	p.next = nil
	p.mu.Unlock()
	ctx, cancel := context.WithDeadline(context.Background(), next.deadline) //nolint:forbidigo // it is of many callers
	defer cancel()
	next.err = p.dials.run(ctx, func(ctx context.Context) error {
		sent := p.client.Pipeline()
		for _, cmd := range next.cmds {
			_ = sent.Process(ctx, cmd) // it gathers
		}
		_, err := sent.Exec(ctx)
		return err
	})
}
