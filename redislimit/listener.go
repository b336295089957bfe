package redislimit

import (
	"context"
	"time"
)

// listener subscribes to releases by other processes while callers wait. If the subscription ends, it subscribes again. The
// engine's mutex guards it.
type listener struct {
	cancel context.CancelFunc // nil when no listener is running
	ended  chan struct{}      // closed when the latest listener has ended
}

const (
	listenAfter      = 5 * time.Millisecond   // shorter waits are not worth a subscription
	resubscribeAfter = 100 * time.Millisecond // after a subscription was lost
)

// listenLocked starts a listener unless one is running.
func (e *Limiter) listenLocked() {
	l := &e.listener
	if l.cancel != nil || e.channel == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // it is for all waiters
	before := l.ended
	l.cancel, l.ended = cancel, make(chan struct{})
	go e.listen(ctx, l.ended, before)
}

func (l *listener) stopLocked() {
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
}

// listen stays subscribed until ctx ends, starting once the previous listener has ended.
func (e *Limiter) listen(ctx context.Context, ended, before chan struct{}) {
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
		if e.subscribe(ctx) == nil {
			timer.Reset(resubscribeAfter)
		} else {
			timer.Reset(askEvery)
		}
	}
}

// subscribe subscribes, within a second, and returns when the subscription has ended or ctx is done. Once it is subscribed, the
// store is asked for the waiters, because releases may have been published before. If the store cannot subscribe, the waiters
// poll once a second.
func (e *Limiter) subscribe(ctx context.Context) error {
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	call, cancel := context.WithTimeout(context.WithValue(ctx, subscriptionEndedKey{}, ended), askEvery)
	defer cancel()
	stop, err := e.options.Store.Subscribe(call, e.channel, e.ask)
	if err != nil {
		return err
	}
	defer stop()
	e.ask()
	<-ctx.Done()
	return nil
}
