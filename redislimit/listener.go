package redislimit

import (
	"context"
	"errors"
	"time"
)

// listener hears of releases by others while somebody waits in this process. The engine's
// mutex guards it.
type listener struct {
	stop  context.CancelFunc // nil: nobody listens
	ended chan struct{}      // closed when the latest has ended
	never bool               // the store cannot subscribe
}

// listenAfter is how long somebody must wait before it is worth it to listen.
const listenAfter = 5 * time.Millisecond

// listenLocked sees to it that somebody listens.
func (e *engine) listenLocked() {
	l := &e.listener
	if l.stop != nil || l.never || e.channel == "" || e.queue.empty() {
		return
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // it is for all waiters
	before := l.ended
	l.stop, l.ended = stop, make(chan struct{})
	go e.listen(ctx, l.ended, before)
}

// unlistenLocked ends it.
func (e *engine) unlistenLocked() {
	if l := &e.listener; l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// listen subscribes until ctx ends, once the listener before has ended. It tries again a second
// after a failure.
func (e *engine) listen(ctx context.Context, ended, before chan struct{}) {
	defer close(ended)
	if before != nil {
		<-before
	}
	timer := time.NewTimer(listenAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		unsubscribe, err := e.subscribe(ctx)
		if err == nil {
			e.askForWaiters() //nolint:contextcheck // for what was released before, and for all waiters
			<-ctx.Done()
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
func (e *engine) subscribe(ctx context.Context) (unsubscribe func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	return e.shared.Store.Subscribe(ctx, e.channel, e.askForWaiters)
}
