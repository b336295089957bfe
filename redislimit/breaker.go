package redislimit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"
	"weak"
)

// breaker is a circuit breaker around a store, which all limiters on the store share. After three consecutive failures it is
// open: scripts fail immediately, except for an occasional probe that tests whether the store is back. It is safe for
// concurrent use.
type breaker struct {
	mu        sync.Mutex // a leaf
	failures  int        // in a row
	err       error      // of the latest
	late      error      // of the last call that finished after its deadline; nil once a call has succeeded
	probing   time.Time  // the deadline of the probe in flight; zero if there is none
	retryAt   time.Time  // when to send the next probe
	backoff   time.Duration
	observers map[*observer]struct{}
}

const (
	failuresUntilOpen = 3
	minBackoff        = 100 * time.Millisecond
	maxBackoff        = 5 * time.Second
)

// breakers has the breaker of each store that limiters use, or of its client. A breaker lives as long as a limiter that uses it, or an
// observer.
var breakers registry

type registry struct {
	mu      sync.Mutex
	of      map[any]weak.Pointer[breaker]
	watched map[*observer]*breaker
}

// keep keeps a breaker for an observer, until it is called with nil.
func (r *registry) keep(o *observer, b *breaker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b == nil {
		delete(r.watched, o)
		return
	}
	if r.watched == nil {
		r.watched = make(map[*observer]*breaker)
	}
	r.watched[o] = b
}

// breakerOf returns the breaker of a store, or of its client.
func breakerOf(s Store) *breaker {
	var key any = s
	if c, ok := s.(interface{ Client() any }); ok {
		key = c.Client()
	}
	made := new(breaker)
	if !reflect.ValueOf(key).Comparable() {
		return made
	}
	breakers.mu.Lock()
	defer breakers.mu.Unlock()
	if b := breakers.of[key].Value(); b != nil {
		return b
	}
	if breakers.of == nil {
		breakers.of = make(map[any]weak.Pointer[breaker])
	}
	breakers.of[key] = weak.Make(made)
	runtime.AddCleanup(made, dropBreaker, key)
	return made
}

// dropBreaker removes a key whose breaker is gone, unless it has a newer one.
func dropBreaker(key any) {
	breakers.mu.Lock()
	defer breakers.mu.Unlock()
	if breakers.of[key].Value() == nil {
		delete(breakers.of, key)
	}
}

// blocked returns the error with which the open breaker refuses a call, or nil if the store may be called.
func (b *breaker) blocked(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blockedLocked(now)
}

func (b *breaker) blockedLocked(now time.Time) error {
	if b.failures >= failuresUntilOpen && (!b.probing.IsZero() || now.Before(b.retryAt)) {
		return b.err
	}
	return nil
}

// enter is called before a call with that deadline, and leave after it. It is blocked, and reports whether the call is a
// probe.
func (b *breaker) enter(now, deadline time.Time) (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.blockedLocked(now); err != nil {
		return false, err
	}
	if probe = b.failures >= failuresUntilOpen; probe {
		b.probing = deadline
	}
	return probe, nil
}

// leave records how a call ended. While the breaker is open, only a probe's failure counts.
func (b *breaker) leave(probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasOpen := b.failures >= failuresUntilOpen
	if probe {
		b.probing = time.Time{}
	} else if wasOpen && err != nil {
		return
	}
	if err == nil {
		b.failures, b.err, b.late, b.backoff = 0, nil, nil, 0
		if wasOpen {
			b.reportLocked(nil)
		}
		return
	}
	b.failures++
	b.backoff = min(max(2*b.backoff, minBackoff), maxBackoff)
	if b.failures == failuresUntilOpen {
		b.backoff = minBackoff
		b.reportLocked(err)
	}
	b.err, b.retryAt = err, time.Now().Add(b.backoff)
}

// retryTime returns when to call the store again after a failure, or the zero time if the latest call did not fail.
func (b *breaker) retryTime(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.retryAt
	switch {
	case b.failures == 0:
		return time.Time{}
	case b.probing.After(at):
		at = b.probing
	}
	if soon := now.Add(time.Millisecond); at.Before(soon) {
		return soon
	}
	return at
}

// timeout returns the failure of a store that has not replied in time.
func (b *breaker) timeout(within time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &timeoutError{within, b.late}
}

type timeoutError struct {
	within time.Duration
	late   error // of an earlier call; nil if there is none
}

func (e *timeoutError) Error() string {
	text := fmt.Sprintf("no answer within %v", e.within)
	if e.late != nil {
		text += fmt.Sprintf("; an earlier call: %v", e.late)
	}
	return text
}

func (e *timeoutError) Unwrap() error { return e.late }

func (b *breaker) setLate(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = err
}

// Watch calls f when the store becomes unavailable or available again: with false and an error when the breaker opens, and with true
// and nil when it closes. If the breaker is open already, f is called with false immediately. The calls come one after another, once
// for each change, however many limiters use the store. Nobody asks the store for Watch, so a change is noticed at the next decision
// of a limiter. f may use limiters. stop ends the calls and waits for one that is running; f must not call it.
func Watch(s Store, f func(up bool, err error)) (stop func()) {
	b, o := breakerOf(s), &observer{onState: f}
	breakers.keep(o, b)
	b.observe(o)
	return func() {
		breakers.keep(o, nil)
		if done := b.ignore(o); done != nil {
			<-done
		}
	}
}

// observer calls a function of Watch on a goroutine of its own, so that it may use limiters, and wait. The breaker's mutex guards it.
type observer struct {
	onState func(up bool, err error)
	done    chan struct{} // closed when the latest change has been reported; nil if there was none
}

// observe has the observer notified when the breaker opens and closes, and that it is open now.
func (b *breaker) observe(o *observer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.observers == nil {
		b.observers = make(map[*observer]struct{})
	}
	b.observers[o] = struct{}{}
	if b.failures >= failuresUntilOpen {
		b.notifyLocked(o, b.err)
	}
}

// ignore ends observe. It returns a channel that is closed once all changes have been reported, or nil if there was none.
func (b *breaker) ignore(o *observer) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.observers, o)
	return o.done
}

func (b *breaker) reportLocked(err error) {
	for o := range b.observers {
		b.notifyLocked(o, err)
	}
}

// notifyLocked calls onState with a change, after the one before.
func (b *breaker) notifyLocked(o *observer, err error) {
	before, done := o.done, make(chan struct{})
	o.done = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		o.onState(err == nil, err)
	}()
}

// storeError says why the store did not decide.
type storeError struct{ why error }

func (e *storeError) Error() string { return ErrStore.Error() + ": " + e.why.Error() }

func (e *storeError) Is(target error) bool {
	var late *timeoutError
	return target == ErrStore || target == ErrTimeout && errors.As(e.why, &late)
}

// Unwrap returns the store's own error, unless it is a context error: the caller's own context has not ended.
func (e *storeError) Unwrap() error {
	if errors.Is(e.why, context.DeadlineExceeded) || errors.Is(e.why, context.Canceled) {
		return nil
	}
	return e.why
}
