package worker

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/internal/limit/hold"
	"github.com/sluice-go/sluice/internal/ring"
	"github.com/sluice-go/sluice/internal/wait"
)

// How far Map runs ahead of its consumer. maxAhead bounds each of the two terms of ahead. A rate
// limiter's limit does not say how many tasks run at a time, so rateAhead takes its place.
const (
	maxAhead  = 1024
	rateAhead = 256
)

// Map returns a sequence that runs f on the pool for each input, under a lease of one permit each, and yields the
// results in the order of the inputs. A result is yielded as soon as it and all results before it are complete, even
// if in has not yet produced its next input. If the pool is busy, Map waits, even if the limiter's QueueLimit is 0.
//
// Map reads at most about Options.Workers + Options.Queue inputs ahead of its consumer, and never more than 2,050. If
// Workers is 0, the limiter's limit takes its place, or 256 if the limiter is a rate limiter. Map reads the limit
// before each input, so the bound follows a limit that changes.
//
// If f returns an error, Map yields it with the value that f returned, and continues. If f panics, Map yields a
// *[PanicError] and continues. An error is yielded in order, that is, after the results of all inputs before it,
// however long they take. Use a [Group] if the first error is to end the work immediately.
//
// If in or f is nil, Map yields an error and stops. If ctx is done before or during the loop, Map yields ctx.Err()
// with the zero Out and stops. If the pool is closed, Map yields the results of the inputs already submitted and then
// [ErrClosed], and stops. If [Pool.Close] cancels the tasks, Map yields ErrClosed immediately and stops. Pool.Wait
// does not return the errors of Map.
//
// If the limiter is closed, Map yields [core.ErrClosed] for the first input that got no lease, and stops.
//
// If the limiter rejects an input, Map yields the rejection and continues with the next input. A rate limiter of
// package core rejects an input if its permits would become available after ctx's deadline; this rejection matches
// [context.DeadlineExceeded]. Break at that error if no more inputs should be read.
//
// f's context is derived from ctx. It also ends when the loop ends for any reason, and when Close cancels the tasks.
// Before the loop ends, Map waits for all running calls of f to return.
//
// The sequence in runs in its own goroutine. After the loop has ended, that goroutine ends as soon as in returns or
// tries to yield another input. Map does not wait for this, so in should stop when ctx is done. A panic of in, or of
// the limiter on that goroutine, is raised in the loop.
//
// Map itself starts nothing; each range over the sequence runs in and f from the beginning.
func Map[In, Out any](
	ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error),
) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		var none Out
		switch err := ctx.Err(); {
		case in == nil || f == nil:
			yield(none, errNilFunc)
			return
		case err != nil:
			yield(none, err)
			return
		case p.zero():
			yield(none, ErrClosed)
			return
		}
		m := &mapping[In, Out]{
			p: p, ctx: p.life.Begin(ctx), open: p.closing.Begin(ctx), f: f,
			inside: make(chan struct{}, 1),
			quiet:  make(chan struct{}),
		}
		defer m.end()
		go m.read(in)
		m.yield(yield)
	}
}

// ahead returns how many inputs Map takes ahead of its consumer. The limiter is called each time, because it
// may change or be exchanged while Map runs.
func (p *Pool) ahead() int {
	workers := p.maxWorkers
	if workers == 0 {
		workers = hold.Limit(p.limiter.Limiter) // before Replenishes: it makes the limiter of a key that has none
		if hold.Replenishes(p.limiter.Limiter) {
			workers = rateAhead
		}
	}
	return min(workers, maxAhead) + min(p.queueLimit, maxAhead)
}

// mapping is one range over the sequence of a Map.
type mapping[In, Out any] struct {
	p    *Pool
	ctx  *wait.Call // f's; ends with the loop
	open *wait.Call // ends when the pool is closed
	f    func(context.Context, In) (Out, error)

	mu      sync.Mutex              // guards the fields below
	pending ring.Ring[*result[Out]] // the results to come, in order
	busy    bool                    // the reader submits an input, whose result will be in pending
	all     bool                    // pending has the last
	room    wait.List[struct{}]     // the reader, while pending is full
	more    wait.List[struct{}]     // the consumer, while pending is empty

	// The reader is the goroutine that runs in. inside holds an element while the reader runs
	// Map's code rather than in's, and permanently after the loop has ended. quiet is closed
	// when the reader has ended.
	inside chan struct{}
	quiet  chan struct{}

	// How the input ended. The reader sets them before it closes pending.
	panicked any
	exited   bool
	cut      bool // Map stopped in before its end

	current *result[Out] // the result that the consumer waits for
}

// result is the place of one input.
type result[Out any] struct {
	owner

	out Out
	ran bool // f was called
}

// read submits the inputs.
func (m *mapping[In, Out]) read(in iter.Seq[In]) {
	m.exited = true
	defer func() {
		if m.panicked = recover(); m.panicked != nil {
			m.exited = false
		}
		m.mu.Lock()
		m.all = true
		m.more.Signal()
		m.mu.Unlock()
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

// submit submits the input and appends its result to pending. It reports whether another input can follow.
func (m *mapping[In, Out]) submit(v In) (more bool) {
	if !m.awaitRoom() {
		return false
	}
	r := &result[Out]{owner: owner{ctx: m.ctx, done: make(chan struct{})}}
	task := func(ctx context.Context) (err error) {
		r.ran = true
		r.out, err = m.f(ctx, v)
		return err
	}
	err := m.p.submit(m.ctx.Context, job{task: task, permits: 1, owner: &r.owner}, true)
	if err != nil {
		r.finish(m.ctx.Explain(err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending.Push(r)
	m.busy = false
	m.more.Signal()
	return !errors.Is(err, core.ErrClosed) && m.ctx.Err() == nil
}

// awaitRoom waits until Map may read ahead one more input, and reports false if the loop ends first.
func (m *mapping[In, Out]) awaitRoom() bool {
	for {
		ahead := m.p.ahead() // without the mutex, because the limiter may be a user's
		m.mu.Lock()
		if m.busy = m.pending.Len() < ahead; m.busy {
			m.mu.Unlock()
			return true
		}
		outcome := m.room.Await(&m.mu, m.ctx.Done())
		m.mu.Unlock()
		if outcome == wait.Canceled {
			return false
		}
	}
}

// pop returns the next result, and waits for it; nil if there are no more. If the pool is closed while it waits, ended is
// true: results, and the end of in, come before ErrClosed.
func (m *mapping[In, Out]) pop() (r *result[Out], ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	closed := m.open.Done()
	for m.pending.Len() == 0 && !m.all && (closed != nil || m.busy) {
		if m.more.Await(&m.mu, closed) == wait.Canceled {
			closed = nil
		}
	}
	if m.pending.Len() == 0 {
		return nil, !m.all
	}
	m.room.Signal()
	return m.pending.Pop(), false
}

// yield yields the results in order.
func (m *mapping[In, Out]) yield(yield func(Out, error) bool) {
	var none Out
	for {
		var ended bool
		if m.current, ended = m.pop(); ended {
			yield(none, m.open.Ended())
			return
		}
		if m.current == nil {
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
		closed := !r.ran && errors.Is(r.err, core.ErrClosed)
		if !yield(r.out, r.err) || closed {
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

// end stops the tasks and waits for them. It also stops the reader, but does not wait for it
// while it runs in's code.
func (m *mapping[In, Out]) end() {
	m.ctx.End()
	m.open.End()
	select {
	case m.inside <- struct{}{}: // the reader is in in's code, and can no longer enter Map's
	case <-m.quiet:
	}
	if m.current != nil {
		m.await(m.current)
	}
	for m.pending.Len() > 0 { // the reader adds no more
		m.await(m.pending.Pop())
	}
}

// await waits for the end of a task. A task that is still queued is dropped instead.
func (m *mapping[In, Out]) await(r *result[Out]) {
	if m.p.takeBack(&r.owner) == 0 {
		<-r.done
	}
}
