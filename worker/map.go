package worker

import (
	"context"
	"errors"
	"iter"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/linked"
)

// How far Map runs ahead of its consumer: maxAhead bounds the limiter's limit and the queue;
// a rate limiter does not say how many tasks run at once, so rateAhead stands for its limit.
const (
	maxAhead  = 1024
	rateAhead = 256
)

// Map runs f on the pool for each input, each under a lease of one permit, and yields the
// results in the order of the inputs, each as soon as it and those before it are complete. A
// slow input does not hold back a finished result. If the pool is busy Map waits, even if
// the limiter has no queue.
//
// Map takes inputs ahead of its consumer: at most Options.Workers plus Options.Queue. If
// Workers is 0, the limiter's limit takes its place, or 256 for a rate limiter. Each part is
// at most 1024.
//
// An error of f is yielded in its place, with the value that f returned, and the rest goes
// on; a panic of f is yielded as its *[PanicError]. If ctx is done, then or later, Map
// yields ctx.Err() with the zero Out, and ends. If the pool is closed, Map yields the
// results of the inputs it has submitted, then [ErrClosed], and ends. If Close cancels, Map
// yields ErrClosed at once, and ends. No error of Map is returned by Pool.Wait.
//
// f's context is derived from ctx. It also ends when the loop ends, in whatever way, and
// when Close cancels. Map waits for the calls of f to return before the loop ends.
//
// in runs in its own goroutine, which ends when in yields or returns after the end of the
// loop. Map does not wait for an input that blocks; let what blocks there end with the same
// ctx. A panic of in comes out of the loop.
//
// Nothing happens until the sequence is ranged over. Each range runs it anew.
func Map[In, Out any](
	ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error),
) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var none Out
		switch err := ctx.Err(); {
		case err != nil:
			yield(none, err)
			return
		case in == nil || f == nil:
			yield(none, errNilFunc)
			return
		case p.limiter == nil:
			yield(none, ErrClosed)
			return
		}
		m := &mapping[In, Out]{
			p: p, ctx: p.life.Begin(ctx), open: p.closing.Begin(ctx), f: f,
			pending: make(chan *result[Out], p.ahead()),
			inside:  make(chan struct{}, 1),
			quiet:   make(chan struct{}),
		}
		defer m.end()
		go m.read(in)
		m.yield(yield)
	}
}

// ahead returns how many inputs Map takes ahead of its consumer.
func (p *Pool) ahead() int {
	workers := p.most
	if workers == 0 {
		workers = p.limit()
		if r, ok := p.limiter.(core.Replenisher); ok && r.ReplenishmentPeriod() > 0 {
			workers = rateAhead
		}
	}
	return min(workers, maxAhead) + min(p.queue, maxAhead)
}

// mapping is a range over a Map.
type mapping[In, Out any] struct {
	p       *Pool
	ctx     *linked.Call // f's; ends with the loop
	open    *linked.Call // ends when no more inputs are accepted
	f       func(context.Context, In) (Out, error)
	pending chan *result[Out] // submitted, or about to be, in order; closed after the last

	// The reader is the goroutine that runs the input. inside has an element while the reader
	// runs Map's code, and for good once the loop has ended. quiet is closed when the reader
	// has ended.
	inside chan struct{}
	quiet  chan struct{}

	// How the input ended. The reader sets them before it closes pending.
	panicked any
	exited   bool
	cut      bool // the context ended before the input

	current *result[Out] // the consumer waits for it
}

// result is the place of one input.
type result[Out any] struct {
	call

	out  Out
	last bool // there is no more, as the pool refused this one; set before done is closed
}

// read submits the inputs.
func (m *mapping[In, Out]) read(in iter.Seq[In]) {
	m.exited = true
	defer func() {
		if m.panicked = recover(); m.panicked != nil {
			m.exited = false
		}
		close(m.pending)
		close(m.quiet)
	}()
	in(func(v In) bool {
		select {
		case m.inside <- struct{}{}:
		case <-m.ctx.Done():
			m.cut = true
			return false
		}
		more := m.submit(v)
		m.cut = !more
		<-m.inside
		return more
	})
	m.exited = false
}

// submit makes a place for the input's result and submits the input. It reports whether
// another input can follow. If the limiter panics here, that is the input's error.
func (m *mapping[In, Out]) submit(v In) (more bool) {
	r := &result[Out]{call: call{ctx: m.ctx, done: make(chan struct{})}}
	select {
	case m.pending <- r:
	case <-m.ctx.Done():
		return false
	}
	task := func(ctx context.Context) (err error) {
		r.out, err = m.f(ctx, v)
		return err
	}
	err := ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = caught(v, "limiter")
		}
		if err != nil {
			r.last = errors.Is(err, core.ErrClosed)
			more = !r.last && m.ctx.Err() == nil
			r.settle(err)
		}
	}()
	err = m.ctx.Explain(m.p.submit(m.ctx.Context, entry{task: task, call: &r.call, permits: 1}, persists))
	return true
}

// yield yields the results in order.
func (m *mapping[In, Out]) yield(yield func(Out, error) bool) {
	var none Out
	for {
		var more bool
		select {
		case m.current, more = <-m.pending:
		case <-m.open.Done():
			select { // after the last result the end of the input comes first
			case m.current, more = <-m.pending:
			default:
				yield(none, m.open.Ended())
				return
			}
		}
		if !more {
			break
		}
		select {
		case <-m.current.done:
		case <-m.ctx.Done():
		}
		if err := m.ctx.Ended(); err != nil {
			yield(none, err)
			return
		}
		r := m.current
		m.current = nil
		if !yield(r.out, r.err) || r.last {
			return
		}
	}
	switch {
	case m.panicked != nil:
		panic(m.panicked)
	case m.exited:
		runtime.Goexit()
	case m.cut:
		yield(none, m.ctx.Ended())
	}
}

// end ends what still goes on: the tasks, and the reader unless it is in the input's code.
func (m *mapping[In, Out]) end() {
	m.ctx.End()
	m.open.End()
	select {
	case m.inside <- struct{}{}: // the reader is in the input's code, and comes back no more
	case <-m.quiet:
	}
	if m.current != nil {
		m.await(m.current)
	}
	for {
		select {
		case r, ok := <-m.pending:
			if !ok {
				return
			}
			m.await(r)
		default:
			return
		}
	}
}

// await waits for the end of a task, unless it is still queued: then it never starts.
func (m *mapping[In, Out]) await(r *result[Out]) {
	if m.p.takeBack(&r.call, nil, context.Canceled) == 0 {
		<-r.done
	}
}
