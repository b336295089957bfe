package redislimit

import (
	"context"
	"errors"
	"time"
)

// listener hears of releases by other processes. The engine's mutex guards it.
type listener struct {
	cancel context.CancelFunc // nil: nobody listens
	ended  chan struct{}      // closed when the latest has ended
	cannot bool               // the store cannot subscribe
}

// listenAfter is how long somebody must wait before it is worth it to listen.
const listenAfter = 5 * time.Millisecond

// listenLocked sees to it that somebody listens.
func (q *queue) listenLocked() {
	l := &q.listener
	if l.cancel != nil || l.cannot || q.e.channel == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // it is for all waiters
	before := l.ended
	l.cancel, l.ended = cancel, make(chan struct{})
	go q.listen(ctx, l.ended, before)
}

func (l *listener) stopLocked() {
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
}

// listen subscribes until ctx ends, once the listener before has ended. It tries again a second
// after a failure.
func (q *queue) listen(ctx context.Context, ended, before chan struct{}) {
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
		unsubscribe, err := q.subscribe(ctx)
		if err == nil {
			q.ring() //nolint:contextcheck // for what was released before, and for all waiters
			<-ctx.Done()
			unsubscribe()
			return
		}
		if errors.Is(err, errors.ErrUnsupported) {
			q.cannotListen() //nolint:contextcheck // as above
			return
		}
		timer.Reset(askEvery)
	}
}

func (q *queue) cannotListen() {
	q.e.mu.Lock()
	defer q.e.unlock()
	q.listener.cannot = true
}

// subscribe subscribes, within a second.
func (q *queue) subscribe(ctx context.Context) (unsubscribe func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	return q.e.shared.Store.Subscribe(ctx, q.e.channel, q.ring)
}
