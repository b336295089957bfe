package redislimit

import (
	"fmt"
	"time"
)

// breaker knows whether the store answers. The engine's mutex guards it.
type breaker struct {
	failures int // in a row
	err      error
	down     bool
	probing  bool
	probeAt  time.Time     // not before: those who wait ask, and once it is down anybody
	backoff  time.Duration // from one probe to the next
}

const (
	failuresUntilDown = 3
	firstBackoff      = 100 * time.Millisecond
	lastBackoff       = 5 * time.Second
)

// pass reports whether o may ask the store; if the store is down, o is the probe then.
func (b *breaker) pass(o *op, now time.Time) bool {
	if !b.down {
		return true
	}
	if b.probing || now.Before(b.probeAt) {
		return false
	}
	b.probing = true
	o.probe = true
	return true
}

// fail notes a failure, and reports whether it is the one that makes the store away.
func (b *breaker) fail(err error, now time.Time) bool {
	b.failures++
	b.err = fmt.Errorf("%w: %w", ErrStore, err)
	b.backoff = min(max(2*b.backoff, firstBackoff), lastBackoff)
	b.probeAt = now.Add(b.backoff)
	if b.failures != failuresUntilDown {
		return false
	}
	b.down, b.backoff, b.probeAt = true, firstBackoff, now.Add(firstBackoff)
	return true
}

// succeed notes an answer, and reports whether the store was away.
func (b *breaker) succeed() bool {
	was := b.down
	*b = breaker{}
	return was
}

// answeredLocked notes how a call of the store ended, and has OnState told of a change.
func (e *engine) answeredLocked(err error, now time.Time) {
	var changed bool
	if err != nil {
		changed = e.breaker.fail(err, now)
	} else {
		changed = e.breaker.succeed()
	}
	if e.shared.OnState == nil || !changed {
		return
	}
	e.news = append(e.news, err)
	if e.teller == nil {
		e.teller = make(chan struct{})
		go e.tell(e.teller)
	}
}

// tell tells OnState the news, in order. It has a goroutine of its own, so that OnState may
// ask the limiter, and wait.
func (e *engine) tell(done chan struct{}) {
	defer close(done)
	for {
		e.mu.Lock()
		if len(e.news) == 0 {
			e.teller = nil
			e.mu.Unlock()
			return
		}
		err := e.news[0]
		e.news = e.news[1:]
		e.mu.Unlock()
		e.shared.OnState(err == nil, err)
	}
}
