package goredis

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/redislimit/internal/batch"
)

// batches has commands that are sent at the same time travel together, in pipelines. A command
// alone is sent at once, by its caller.
type batches struct {
	process  func(context.Context, redis.Cmder) error
	pipeline func() redis.Pipeliner
	queue    batch.Queue[*passenger]
}

// passenger is a command in a batch.
type passenger struct {
	cmd once
	by  *batches
}

// send returns when the command has its answer, or ctx is done.
func (b *batches) send(ctx context.Context, cmd once) error {
	if b.queue.Enter() {
		defer b.queue.Leave()
		return b.process(ctx, cmd)
	}
	deadline, _ := ctx.Deadline()
	made, err := b.queue.Join(deadline, ctx.Done(), &passenger{cmd, b}, new(batch.Seat[*passenger]))
	switch {
	case err != nil:
		return cmp.Or(ctx.Err(), err)
	case made:
		return cmd.Err()
	}
	return b.process(ctx, cmd)
}

// Together sends all in a pipeline. Each command has its own error.
func (p *passenger) Together(ctx context.Context, all []*passenger) {
	if len(all) == 1 {
		_ = p.by.process(ctx, p.cmd)
		return
	}
	pipeline := p.by.pipeline()
	for _, other := range all {
		_ = pipeline.Process(ctx, other.cmd) // it is only put in
	}
	_, _ = pipeline.Exec(ctx)
}

// Size returns how many bytes the command takes, at most.
func (p *passenger) Size() int {
	const frame = 10
	var digits [20]byte
	n := frame
	for _, a := range p.cmd.Args() {
		switch a := a.(type) {
		case string:
			n += frame + len(a)
		case int64:
			n += frame + len(strconv.AppendInt(digits[:0], a, 10))
		default:
			n += frame + len(digits)
		}
	}
	return n
}
