package redislimit

import (
	"context"
	"errors"
	"time"
)

// listener hears of releases by others while somebody waits in this process. The engine's
// mutex guards it.
type listener struct {
	stop  chan struct{} // closed to end it; nil: nobody listens
	ended chan struct{} // closed when the latest has ended
	never bool          // the store can't
}

// listenAfter is how long somebody must wait before it is worth it to listen.
const listenAfter = 5 * time.Millisecond

// listenLocked sees to it that somebody listens.
func (e *engine) listenLocked() {
	if l := &e.listener; l.stop == nil && !l.never && e.channel != "" && !e.queue.empty() {
		before := l.ended
		l.stop, l.ended = make(chan struct{}), make(chan struct{})
		go e.listen(l.stop, l.ended, before)
	}
}

// unlistenLocked ends it.
func (e *engine) unlistenLocked() {
	if l := &e.listener; l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
}

// listen subscribes, until stop is closed. One that fails is tried again a second later.
func (e *engine) listen(stop, ended, before chan struct{}) {
	defer close(ended)
	if before != nil {
		<-before // so that there is one at a time
	}
	ctx, cancel := context.WithCancel(stopContext{stop: stop})
	defer cancel()
	timer := time.NewTimer(listenAfter)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		bounded, cancel := context.WithTimeout(ctx, askEvery)
		unsubscribe, err := e.shared.Store.Subscribe(bounded, e.channel, e.heard)
		cancel()
		if err == nil {
			e.heard() // what was released before
			<-stop
			unsubscribe()
			return
		}
		if errors.Is(err, errors.ErrUnsupported) {
			e.mu.Lock()
			e.listener.never = true
			e.mu.Unlock()
			return
		}
		timer.Reset(askEvery)
	}
}

// heard is what happens when a release is published.
func (e *engine) heard() {
	e.mu.Lock()
	if !e.queue.empty() {
		e.kickLocked()
	}
	e.unlock()
}

// stopContext is a context that ends when a channel is closed.
type stopContext struct{ stop chan struct{} }

func (stopContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c stopContext) Done() <-chan struct{}     { return c.stop }
func (stopContext) Value(any) any               { return nil }

func (c stopContext) Err() error {
	select {
	case <-c.stop:
		return context.Canceled
	default:
		return nil
	}
}
