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

// breakers has the circuit breakers of a store, which all limiters on the store share: one per node that the store tells, and one for
// the keys whose node it does not tell. It is safe for concurrent use.
type breakers struct {
	mu        sync.Mutex // a leaf; it guards the breakers, too
	of        map[string]*breaker
	open      int // how many of them are
	observers map[*observer]struct{}
}

// breaker is the circuit breaker around a node. After three consecutive failures it is open: scripts fail immediately, except for an
// occasional probe that tests whether the node is back.
type breaker struct {
	all  *breakers
	node string // empty if it is not known

	failures int       // number of failures in a row
	err      error     // error of the latest failure
	late     error     // error of the last call that finished after its deadline; nil once a call has succeeded
	probing  time.Time // the deadline of the probe in flight; zero if there is none
	retryAt  time.Time // when to send the next probe
	backoff  time.Duration
}

const (
	failuresUntilOpen = 3
	minBackoff        = 100 * time.Millisecond
	maxBackoff        = 5 * time.Second
)

// registered has the breakers of each store that limiters use, or of its client. They live as long as a limiter that uses them, or an
// observer.
var registered registry

type registry struct {
	mu      sync.Mutex
	of      map[any]weak.Pointer[breakers]
	watched map[*observer]*breakers
}

// keep keeps breakers for an observer, until it is called with nil.
func (r *registry) keep(o *observer, b *breakers) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b == nil {
		delete(r.watched, o)
		return
	}
	if r.watched == nil {
		r.watched = make(map[*observer]*breakers)
	}
	r.watched[o] = b
}

// breakersOf returns the breakers of a store, or of its client.
func breakersOf(s Store) *breakers {
	var key any = s
	if c, ok := s.(interface{ Client() any }); ok {
		key = c.Client()
	}
	made := &breakers{of: make(map[string]*breaker)}
	if !reflect.ValueOf(key).Comparable() {
		return made
	}
	registered.mu.Lock()
	defer registered.mu.Unlock()
	if b := registered.of[key].Value(); b != nil {
		return b
	}
	if registered.of == nil {
		registered.of = make(map[any]weak.Pointer[breakers])
	}
	registered.of[key] = weak.Make(made)
	runtime.AddCleanup(made, dropBreakers, key)
	return made
}

// dropBreakers removes a key whose breakers are gone, unless it has newer ones.
func dropBreakers(key any) {
	registered.mu.Lock()
	defer registered.mu.Unlock()
	if registered.of[key].Value() == nil {
		delete(registered.of, key)
	}
}

// at returns the breaker of a node.
func (all *breakers) at(node string) *breaker {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.atLocked(node)
}

func (all *breakers) atLocked(node string) *breaker {
	b := all.of[node]
	if b == nil {
		b = &breaker{all: all, node: node}
		all.of[node] = b
	}
	return b
}

// moved returns the breaker of the node to which a key of this breaker's node has moved. After a failover nobody may ever ask the old
// node again, so its breaker is closed. If the old node still has keys and is still silent, the breaker opens again.
func (b *breaker) moved(node string) *breaker {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.closeLocked()
	return b.all.atLocked(node)
}

// blocked returns the error with which the open breaker refuses a call, or nil if the node may be called.
func (b *breaker) blocked(now time.Time) error {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	return b.blockedLocked(now)
}

func (b *breaker) blockedLocked(now time.Time) error {
	if b.openLocked() && (!b.probing.IsZero() || now.Before(b.retryAt)) {
		return b.err
	}
	return nil
}

func (b *breaker) openLocked() bool { return b.failures >= failuresUntilOpen }

// enter is called before a call with that deadline, and leave after it. It is blocked, and reports whether the call is a
// probe.
func (b *breaker) enter(now, deadline time.Time) (probe bool, err error) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if err := b.blockedLocked(now); err != nil {
		return false, err
	}
	if probe = b.openLocked(); probe {
		b.probing = deadline
	}
	return probe, nil
}

// leave records how a call ended. While the breaker is open, only a probe's failure counts.
func (b *breaker) leave(probe bool, err error) {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	if probe {
		b.probing = time.Time{}
	} else if b.openLocked() && err != nil {
		return
	}
	if err == nil {
		b.closeLocked()
		return
	}
	b.failures++
	b.backoff = min(max(2*b.backoff, minBackoff), maxBackoff)
	if b.failures == failuresUntilOpen {
		b.backoff = minBackoff
		b.all.open++
		if b.all.open == 1 {
			b.all.reportLocked(err)
		}
	}
	b.err, b.retryAt = err, time.Now().Add(b.backoff)
}

func (b *breaker) closeLocked() {
	wasOpen := b.openLocked()
	b.failures, b.err, b.late, b.backoff = 0, nil, nil, 0
	if !wasOpen {
		return
	}
	b.all.open--
	if b.all.open == 0 {
		b.all.reportLocked(nil)
	}
}

// retryTime returns when to call the node again after a failure, or the zero time if the latest call did not fail.
func (b *breaker) retryTime(now time.Time) time.Time {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
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

// timeout returns the failure of a node that has not replied in time.
func (b *breaker) timeout(within time.Duration) error {
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	return &timeoutError{within, b.late}
}

type timeoutError struct {
	within time.Duration
	late   error // error of an earlier call; nil if there is none
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
	b.all.mu.Lock()
	defer b.all.mu.Unlock()
	b.late = err
}

// Watch calls f when the store becomes unavailable or available again: with false and an error when the breaker opens, and with true
// and nil when it closes. If the breaker is open already, f is called with false immediately. A cluster is unavailable while the breaker
// of any of its nodes is open. The calls come one after another, once for each change, however many limiters use the store. Nobody asks
// the store for Watch, so a change is noticed at the next decision of a limiter. f may use limiters. stop ends the calls and waits for
// one that is running; f must not call it.
func Watch(s Store, f func(up bool, err error)) (stop func()) {
	all, o := breakersOf(s), &observer{onState: f}
	registered.keep(o, all)
	all.observe(o)
	return func() {
		registered.keep(o, nil)
		if done := all.ignore(o); done != nil {
			<-done
		}
	}
}

// observer calls a function of Watch on a goroutine of its own, so that it may use limiters, and wait. The mutex of the breakers guards it.
type observer struct {
	onState func(up bool, err error)
	done    chan struct{} // closed when the latest change has been reported; nil if there was none
}

// observe has the observer notified of each change, and that a breaker is open now.
func (all *breakers) observe(o *observer) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.observers == nil {
		all.observers = make(map[*observer]struct{})
	}
	all.observers[o] = struct{}{}
	for _, b := range all.of {
		if b.openLocked() {
			all.notifyLocked(o, b.err)
			return
		}
	}
}

// ignore ends observe. It returns a channel that is closed once all changes have been reported, or nil if there was none.
func (all *breakers) ignore(o *observer) <-chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.observers, o)
	return o.done
}

func (all *breakers) reportLocked(err error) {
	for o := range all.observers {
		all.notifyLocked(o, err)
	}
}

// notifyLocked calls onState with a change, after the one before.
func (*breakers) notifyLocked(o *observer, err error) {
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
