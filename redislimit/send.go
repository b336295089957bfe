package redislimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// errNoReturn is the failure of a Run that has not returned: it panicked, or ended its goroutine.
var errNoReturn = errors.New("the store's Run has not returned")

// lateFor is how long a call may continue after its deadline.
const lateFor = 10 * time.Second

// send makes a call, and distributes the results. It returns at the call's deadline at the latest. If the store panics, the call has
// failed, and the panic continues.
func (p *pipeline) send(c *call) {
	var reply []int64
	err := errNoReturn
	defer func() { p.finish(c, reply, err) }()
	if p.e.ready() {
		reply, err = p.runHere(c)
	} else {
		reply, err = p.runApart(c)
	}
}

// runScript runs the call's script. If the server's instant is in none of the calendar windows, it runs the script once more, with the
// windows around that instant.
func (p *pipeline) runScript(ctx context.Context, c *call) ([]int64, error) {
	script, args := c.limits.script(), c.args
	reply, err := p.e.options.Store.Run(ctx, script, p.e.keys, args...)
	if err == nil && c.limits.ofCalendar() && outside(reply) {
		return p.e.options.Store.Run(ctx, script, p.e.keys, c.limits.corrected(args, reply)...)
	}
	return reply, err
}

// runHere runs the script on this goroutine, for a store that returns by the deadline. On two CPUs another goroutine would add
// half of the call's time: 90 µs instead of 62 in BenchmarkTake/callers=1 of bench.
func (p *pipeline) runHere(c *call) ([]int64, error) {
	ctx, cancel := context.WithDeadline(context.Background(), c.deadline) //nolint:forbidigo // it is for many callers
	defer cancel()
	reply, err := p.runScript(ctx, c)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = p.e.breaker.timeout(p.e.options.Timeout)
	}
	return reply, err
}

// runApart runs the script on a goroutine of its own, which may continue after the deadline. A new connection to a distant server
// needs several round trips. If the call ended with the decision, the next call would have to start again, and none would ever
// succeed.
func (p *pipeline) runApart(c *call) ([]int64, error) {
	e := p.e
	// With a context that has no deadline, rueidis would switch to goroutines of its own for good.
	ctx, cancel := context.WithDeadline(context.Background(), c.deadline.Add(lateFor)) //nolint:forbidigo // as above
	var reply []int64
	err := errNoReturn
	var claimed atomic.Bool // by the reply, or by the deadline
	done := make(chan struct{})
	go func() {
		defer cancel()
		defer func() {
			if claimed.CompareAndSwap(false, true) {
				close(done)
			} else if ctx.Err() == nil {
				e.breaker.setLate(err)
			}
		}()
		reply, err = p.runScript(ctx, c)
	}()
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	select {
	case <-done:
		return reply, err
	case <-timer.C:
		if !claimed.CompareAndSwap(false, true) {
			<-done
			return reply, err
		}
		stop := context.AfterFunc(e.ending, cancel)
		context.AfterFunc(ctx, func() { stop() })
		return nil, e.breaker.timeout(e.options.Timeout)
	}
}

// finish distributes the results of the calls that have ended, in the order in which they were sent.
func (p *pipeline) finish(c *call, reply []int64, err error) {
	e := p.e
	replied := err == nil || errors.Is(err, ErrRefused)
	if err == nil {
		err = c.decode(reply)
	}
	if err != nil {
		err = &storeError{err}
	}
	if replied {
		e.breaker.leave(c.probe, nil) // a reply is no outage, even if it is an error
	} else {
		e.breaker.leave(c.probe, err)
	}
	if err == nil && c.reply.conflict != 0 {
		err = fmt.Errorf("redislimit: the key %q holds %v, want %v", e.options.Key, c.reply.conflict, e.kind)
	}
	e.mu.Lock()
	defer e.unlock()
	c.over, c.at, c.err = true, time.Now(), err
	for len(p.inFlight) > 0 && p.inFlight[0].over {
		first := p.inFlight[0]
		p.inFlight = slices.Delete(p.inFlight, 0, 1)
		if first.err != nil {
			p.failLocked(first, first.err)
		} else {
			p.deliverLocked(first, first.at)
		}
	}
}
