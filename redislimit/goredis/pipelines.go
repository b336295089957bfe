package goredis

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipelines sends commands. The commands of a few callers have a connection each. Those of more callers are sent in pipelines. A
// pipeline does not wait for the one before, because with a distant server that would take two round trips.
type pipelines struct {
	client *redis.Client

	mu      sync.Mutex
	callers int       // number of callers in process
	next    *pipeline // not sent yet; nil if there is none
}

// pipeline is a number of commands that are sent together.
type pipeline struct {
	cmds     []redis.Cmder
	deadline time.Time     // the latest of its callers'
	done     chan struct{} // closed when the pipeline has ended
}

// few is how many callers have a connection each. Without pipelines BenchmarkTake/callers=64/keys=1000 of bench takes twice
// as long, and the server uses half as much CPU time again.
const few = 8

// process returns when the server has replied or ctx is done.
func (p *pipelines) process(ctx context.Context, cmd redis.Cmder) error {
	shared := p.enter(ctx, cmd)
	defer p.leave()
	if shared == nil {
		return p.client.Process(ctx, cmd)
	}
	select {
	case <-shared.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return cmd.Err()
}

// enter returns the pipeline in which the command is sent, or nil if the command has a connection of its own.
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
		go p.send(p.next)
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
	ctx, cancel := context.WithDeadline(context.Background(), next.deadline) //nolint:forbidigo // it is for many callers
	defer cancel()
	sent := p.client.Pipeline()
	for _, cmd := range next.cmds {
		_ = sent.Process(ctx, cmd) // only queues it
	}
	_, _ = sent.Exec(ctx) // each command has its error
}
