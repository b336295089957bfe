package channel

import (
	"context"
	"sync"
	"sync/atomic"
)

// patience is a sender's ctx as the limiter sees it: done, too, when the channel is
// closed. It costs nothing until the limiter asks for its Done channel, which it does when
// the sender has to wait.
type patience struct {
	context.Context          // the sender's
	closing         *closing // the channel's
	asked           atomic.Bool
	wait            atomic.Pointer[wait] // nil until Done
}

// wait is the end of a patience that somebody waits on.
type wait struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// patiences holds those that nobody knows any more.
var patiences = sync.Pool{New: func() any { return new(patience) }}

func newPatience(ctx context.Context, c *closing) *patience {
	p := patiences.Get().(*patience)
	p.Context, p.closing = ctx, c
	return p
}

// Done returns a channel that is closed when the sender's ctx is done or the channel closed.
func (p *patience) Done() <-chan struct{} {
	if w := p.wait.Load(); w != nil {
		return w.ctx.Done()
	}
	w := new(wait)
	w.ctx, w.cancel = context.WithCancel(p.Context)
	if !p.wait.CompareAndSwap(nil, w) {
		w.cancel()
		return p.wait.Load().ctx.Done()
	}
	p.closing.add(w)
	return w.ctx.Done()
}

// Err returns the sender's ctx.Err(), or context.Canceled when the channel is closed.
func (p *patience) Err() error {
	if w := p.wait.Load(); w != nil {
		return w.ctx.Err()
	}
	return p.Context.Err()
}

// Value returns the sender's value for key. A context made from p finds in it what p
// waits on, and needs no goroutine.
func (p *patience) Value(key any) any {
	p.asked.Store(true)
	if w := p.wait.Load(); w != nil {
		return w.ctx.Value(key)
	}
	return p.Context.Value(key)
}

// end is called when the limiter has returned. A limiter of core's has let go of p; of
// another's that is sure only if it never looked at more than Err and the deadline.
func (p *patience) end(forgotten bool) {
	w, asked := p.wait.Load(), p.asked.Load()
	if w != nil {
		p.closing.remove(w)
		w.cancel()
	}
	if !forgotten && (w != nil || asked) {
		return
	}
	if w != nil {
		p.wait.Store(nil)
	}
	if asked {
		p.asked.Store(false)
	}
	p.Context, p.closing = nil, nil
	patiences.Put(p)
}

// closing knows who waits in the limiter's queue, and ends that when the channel is closed.
type closing struct {
	mu    sync.Mutex
	ended bool
	waits map[*wait]struct{}
}

func (c *closing) add(w *wait) {
	c.mu.Lock()
	if c.waits == nil {
		c.waits = make(map[*wait]struct{})
	}
	c.waits[w] = struct{}{}
	ended := c.ended
	c.mu.Unlock()
	if ended {
		w.cancel()
	}
}

func (c *closing) remove(w *wait) {
	c.mu.Lock()
	delete(c.waits, w)
	c.mu.Unlock()
}

func (c *closing) end() {
	c.mu.Lock()
	c.ended = true
	waits := c.waits
	c.waits = nil
	c.mu.Unlock()
	for w := range waits {
		w.cancel()
	}
}
