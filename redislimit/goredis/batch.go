package goredis

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// batches has commands that are sent at the same time travel together, in pipelines: whoever
// finds others under way waits for the next. A command alone is sent at once, by its caller.
type batches struct {
	process  func(context.Context, redis.Cmder) error
	pipeline func() redis.Pipeliner

	mu       sync.Mutex
	underWay int
	next     []*waiting
	ended    time.Time // when the latest that was under way ended
}

// waiting is a command for the next batch.
type waiting struct {
	cmd      once
	size     int           // in bytes, about
	deadline time.Time     // zero: none
	done     chan struct{} // closed when the command has its answer
}

const (
	mostUnderWay = 2 // calls and batches

	// mostInBatch bounds a batch in bytes, but for a command that is larger alone. More of it would
	// cost a call less by little, and what a server reads at once can be sent before it answers, also
	// where a connection is a pipe in memory that keeps nothing.
	mostInBatch = 4000

	// stuckAfter is how long nothing may end until those under way are taken to be stuck, on
	// a connection that nobody answers. Then nobody waits for them any more.
	stuckAfter = 5 * time.Millisecond
)

// send returns when the command has its answer, or ctx is done.
func (b *batches) send(ctx context.Context, cmd once) error {
	b.mu.Lock()
	if b.underWay < mostUnderWay {
		b.underWay++
		b.mu.Unlock()
		defer b.end() //nolint:contextcheck // the next batch is others'
		return b.process(ctx, cmd)
	}
	w := &waiting{cmd: cmd, size: size(cmd.Args()), done: make(chan struct{})}
	w.deadline, _ = ctx.Deadline()
	b.next = append(b.next, w)
	b.mu.Unlock()
	return b.await(ctx, w)
}

// await waits for the batch that w is in.
func (b *batches) await(ctx context.Context, w *waiting) error {
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return w.cmd.Err()
		case <-ctx.Done():
			b.withdraw(w)
			return ctx.Err()
		case <-timer.C:
			b.mu.Lock()
			stuck := time.Since(b.ended) >= stuckAfter
			b.mu.Unlock()
			if stuck && b.withdraw(w) {
				return b.process(ctx, w.cmd)
			}
			timer.Reset(stuckAfter)
		}
	}
}

// withdraw takes w out of the next batch, and reports whether it was there: it was not sent then.
func (b *batches) withdraw(w *waiting) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.next {
		if other == w {
			b.next = append(b.next[:i], b.next[i+1:]...)
			return true
		}
	}
	return false
}

// end is for when what was under way has ended: the next batch goes.
func (b *batches) end() {
	b.mu.Lock()
	b.ended = time.Now()
	batch := b.takeLocked()
	b.mu.Unlock()
	if len(batch) > 0 {
		go b.run(batch)
	}
}

// takeLocked returns the next batch, which is under way then; none if nobody waits.
func (b *batches) takeLocked() []*waiting {
	if len(b.next) == 0 {
		b.underWay--
		return nil
	}
	n, bytes := 1, b.next[0].size
	for n < len(b.next) && bytes+b.next[n].size <= mostInBatch {
		bytes += b.next[n].size
		n++
	}
	batch := b.next[:n:n]
	b.next = b.next[n:]
	return batch
}

// run sends batches until nobody waits.
func (b *batches) run(batch []*waiting) {
	for len(batch) > 0 {
		b.exec(batch)
		for _, w := range batch {
			close(w.done)
		}
		runtime.Gosched() // those who were answered may ask again, and travel in the next
		b.mu.Lock()
		b.ended = time.Now()
		batch = b.takeLocked()
		b.mu.Unlock()
	}
}

// exec sends a batch, until the last of its deadlines.
func (b *batches) exec(batch []*waiting) {
	ctx := context.Background() //nolint:forbidigo // those who wait have contexts of their own
	latest, bounded := time.Time{}, true
	for _, w := range batch {
		bounded = bounded && !w.deadline.IsZero()
		if w.deadline.After(latest) {
			latest = w.deadline
		}
	}
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, latest)
		defer cancel()
	}
	if len(batch) == 1 {
		_ = b.process(ctx, batch[0].cmd) // the command has it
		return
	}
	p := b.pipeline()
	for _, w := range batch {
		_ = p.Process(ctx, w.cmd) // it is only put in
	}
	_, _ = p.Exec(ctx) // each command has its own
}

// size returns how many bytes a command takes, at most.
func size(args []any) int {
	const frame = 10
	var digits [20]byte
	n := frame
	for _, a := range args {
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
