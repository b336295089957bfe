package redislimit

import (
	"context"
	"errors"
	"time"
)

// listener hears of releases by others while somebody waits in this process. The engine's
// mutex guards it.
type listener struct {
	until *callContext  // until it ends; nil: nobody listens
	ended chan struct{} // closed when the latest has ended
	never bool          // the store can't
}

// listenAfter is how long somebody must wait before it is worth it to listen.
const listenAfter = 5 * time.Millisecond

// listenLocked sees to it that somebody listens.
func (e *engine) listenLocked() {
	if l := &e.listener; l.until == nil && !l.never && e.channel != "" && !e.queue.empty() {
		before := l.ended
		l.until, l.ended = new(callContext), make(chan struct{})
		go e.listen(l.until, l.ended, before)
	}
}

// unlistenLocked ends it.
func (e *engine) unlistenLocked() {
	if l := &e.listener; l.until != nil {
		l.until.finish(context.Canceled)
		l.until = nil
	}
}

// listen subscribes, until the context ends. One that fails is tried again a second later.
func (e *engine) listen(until *callContext, ended, before chan struct{}) {
	defer close(ended)
	if before != nil {
		<-before // so that there is one at a time
	}
	timer := time.NewTimer(listenAfter)
	defer timer.Stop()
	for {
		select {
		case <-until.Done():
			return
		case <-timer.C:
		}
		unsubscribe, err := e.subscribe(until)
		if err == nil {
			e.heard() // what was released before
			<-until.Done()
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

// subscribe subscribes, within a second.
func (e *engine) subscribe(until *callContext) (unsubscribe func(), err error) {
	c := until.within(askEvery)
	defer c.end()
	return e.shared.Store.Subscribe(c, e.channel, e.heard)
}

// heard is what happens when a release is published.
func (e *engine) heard() {
	e.mu.Lock()
	if !e.queue.empty() {
		e.kickLocked()
	}
	e.unlock()
}
