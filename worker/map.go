package worker

import (
	"context"
	"errors"
	"iter"
	"runtime"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/ending"
)

// How far Map runs ahead of its consumer: mostAhead bounds what the limiter or the queue
// allows; of a rate limiter, which says nothing of how many run at once, it is rateAhead.
const (
	mostAhead = 1024
	rateAhead = 256
)

// Map runs f on the pool for each input, each under a lease of one permit, and yields the
// results in the order of the inputs, as soon as each is there: a slow input does not hold
// back a finished result. It takes inputs ahead of its consumer, as many as Options.Workers
// and Options.Queue together, and then waits for the consumer; for 0 workers it is the
// limiter's limit, or 256 if that is a rate, and each part is 1024 at most. A pool that is busy makes it wait, also if its limiter lets nobody wait.
//
// An error is yielded in its place, beside what f returned, and the rest go on; a panic of
// f is yielded as its *[PanicError]. A done ctx, then or later, is yielded as ctx.Err() with
// the zero Out, and is the last. So is [ErrClosed] if the pool is closed: inputs that were
// submitted before are still yielded. Under Options.CancelOnError the error that cancels the
// round is the last, at once, also if it is that of an f of this Map. But for that one, Wait
// does not return these errors.
//
// f's context is ctx, which ends too when the loop does, and when Close cancels. When the
// loop ends, however that comes, no f of it runs any more: Map waits for them.
//
// in runs in a goroutine of its own, which ends with it. Map does not wait for an input
// that blocks while the loop ends: that goroutine ends as soon as in yields or returns, so
// let what blocks there end with the same ctx. A panic of the input comes out of the loop.
//
// Nothing happens before the sequence is ranged over; each range runs it anew.
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
		r := p.round.Load()
		m := &mapping[In, Out]{
			p: p, round: r, ctx: r.life.Begin(ctx), f: f,
			pending: make(chan *result[Out], p.ahead()),
			inside:  make(chan struct{}, 1),
			quiet:   make(chan struct{}),
		}
		defer m.end()
		go m.read(in)
		m.yield(ctx, yield)
	}
}

// ahead returns how many inputs Map takes ahead of its consumer.
func (p *Pool) ahead() int {
	workers := p.most
	switch {
	case workers > 0:
	case p.rated:
		workers = rateAhead
	default:
		workers = p.limit()
	}
	return min(workers, mostAhead) + min(p.queue, mostAhead)
}

// mapping is a Map at work.
type mapping[In, Out any] struct {
	p       *Pool
	round   *round
	ctx     *ending.Context // f's; ends with the loop
	f       func(context.Context, In) (Out, error)
	pending chan *result[Out] // submitted, or about to be, in order; closed after the last

	// inside has an element while the reader runs code of ours, and for good once the
	// consumer has left. quiet is closed when the reader has ended.
	inside chan struct{}
	quiet  chan struct{}

	// How the input ended; the reader sets them before it closes pending.
	whole    bool // all inputs were read
	refused  bool // the last one's place has the error for which no more were
	panicked any
	exited   bool

	current *result[Out] // what the consumer waits for
}

// result is the place of one input.
type result[Out any] struct {
	call
	out Out
}

// read submits the inputs. It is a goroutine, which the consumer waits for in end.
func (m *mapping[In, Out]) read(in iter.Seq[In]) {
	returned := false
	defer func() {
		if !returned {
			m.panicked = recover()
			m.exited = m.panicked == nil
		}
		close(m.pending)
		close(m.quiet)
	}()
	m.whole = true
	in(func(v In) bool {
		select {
		case m.inside <- struct{}{}:
		case <-m.ctx.Done():
			m.whole = false
			return false
		}
		more := m.submit(v)
		<-m.inside
		m.whole = m.whole && more
		return more
	})
	returned = true
}

// submit makes a place for the input's result and submits it. It reports false if there
// is no use in another.
func (m *mapping[In, Out]) submit(v In) bool {
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
	err := m.hand(entry{task: task, call: &r.call, permits: 1})
	m.refused = errors.Is(err, core.ErrClosed)
	return !m.refused && m.ctx.Err() == nil
}

// hand submits a task, or settles it with why it was not. A limiter that panics does so on a
// goroutine that is ours: it is the task's error. The goroutine may exit even so.
func (m *mapping[In, Out]) hand(e entry) (err error) {
	answered := false
	defer func() {
		if !answered {
			err = ErrGoexit
			if value := recover(); value != nil {
				err = caught(value, "limiter")
			}
		}
		if err != nil {
			e.call.settle(err)
		}
	}()
	err = m.ctx.Explain(m.p.submit(m.ctx, e, persists))
	answered = true
	return err
}

// yield yields the results in order.
func (m *mapping[In, Out]) yield(ctx context.Context, yield func(Out, error) bool) {
	for {
		var more bool
		select {
		case m.current, more = <-m.pending:
		case <-m.ctx.Done():
			// If the input has ended and all is yielded, it is not too late.
			select {
			case m.current, more = <-m.pending:
			default:
				m.giveUp(ctx, yield)
				return
			}
		}
		if !more {
			m.last(ctx, yield)
			return
		}
		if !m.await(ctx, m.current) {
			m.giveUp(ctx, yield)
			return
		}
		r := m.current
		m.current = nil
		if !yield(r.out, r.err) {
			return
		}
	}
}

// await waits for a result. It reports false if that is not to be yielded any more: ctx is
// done, an error cancelled the round, or Close what runs. A Close that lets it end does not.
func (m *mapping[In, Out]) await(ctx context.Context, r *result[Out]) bool {
	select {
	case <-r.done:
	case <-m.ctx.Done():
	}
	if m.ctx.Err() == nil {
		return true
	}
	if !m.p.drained() {
		return false
	}
	select {
	case <-r.done: // in a moment, if it was refused as the pool was closed
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// giveUp yields why there are no more results: ctx is done, the pool was closed, or an
// error cancelled the round.
func (m *mapping[In, Out]) giveUp(ctx context.Context, yield func(Out, error) bool) {
	var none Out
	err := ctx.Err()
	if err == nil {
		err = m.round.life.Cause()
	}
	if err == nil {
		err = ErrClosed
	}
	yield(none, err)
}

// last is what happens after the last result.
func (m *mapping[In, Out]) last(ctx context.Context, yield func(Out, error) bool) {
	switch {
	case m.panicked != nil:
		panic(m.panicked)
	case m.exited:
		runtime.Goexit()
	case !m.whole && !m.refused:
		m.giveUp(ctx, yield)
	}
}

// end ends what still goes on: the tasks, and the reader unless it is inside the input.
func (m *mapping[In, Out]) end() {
	m.ctx.Finish(false)
	select {
	case m.inside <- struct{}{}: // it is inside the input, and will come no further than there
	case <-m.quiet:
	}
	if m.current != nil {
		m.p.awaitCall(&m.current.call)
	}
	for {
		select {
		case r, ok := <-m.pending:
			if !ok {
				return
			}
			m.p.awaitCall(&r.call)
		default:
			return
		}
	}
}

// awaitCall waits for the end of a call's task, which may not have to start any more.
func (p *Pool) awaitCall(c *call) {
	if !p.takeBack(c) {
		<-c.done
	}
}
