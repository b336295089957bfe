package ioreader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// ending is the context that a throttled call waits under: it is done when the caller's
// context is, and when end is called, by Close or a deadline. While nobody waits it
// costs nothing: only Done, which a limiter calls when it starts to wait, attaches it to
// the caller's context, and rest detaches it.
type ending struct {
	parent context.Context // nil: none
	done   chan struct{}
	cause  atomic.Pointer[error] // why it ended; set before done is closed
	begun  atomic.Int64          // when a wait began, from base; 0: nobody has waited since rest
	base   time.Time

	mu     sync.Mutex // guards what follows, and the setting of cause; a leaf
	holds  int        // who wants it attached
	detach func() bool
	after  map[*func()]struct{}
}

func newEnding(parent context.Context) *ending {
	e := newLoneEnding()
	e.parent = parent
	return e
}

// newLoneEnding returns one without a caller's context.
func newLoneEnding() *ending { return &ending{done: make(chan struct{}), base: time.Now()} }

// Err returns why it ended, nil if it has not.
func (e *ending) Err() error {
	if cause := e.cause.Load(); cause != nil {
		return *cause
	}
	if e.parent != nil {
		return e.parent.Err()
	}
	return nil
}

// Done is called by a limiter that is about to wait.
func (e *ending) Done() <-chan struct{} {
	if e.begun.Load() == 0 && e.begun.CompareAndSwap(0, max(int64(time.Since(e.base)), 1)) {
		e.hold()
	}
	return e.done
}

// hold attaches it to the caller's context until let is called as often.
func (e *ending) hold() {
	if e.parent == nil || e.parent.Done() == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds++
	if e.detach == nil && e.cause.Load() == nil {
		e.detach = context.AfterFunc(e.parent, func() { e.end(e.parent.Err()) })
	}
}

func (e *ending) let() {
	if e.parent == nil || e.parent.Done() == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds--
	if e.holds == 0 && e.detach != nil {
		e.detach()
		e.detach = nil
	}
}

// waited returns for how long there has been a wait since rest, and whether there was.
func (e *ending) waited() (time.Duration, bool) {
	begun := e.begun.Load()
	if begun == 0 {
		return 0, false
	}
	return time.Since(e.base) - time.Duration(begun), true
}

// rest is called when the limiter has answered.
func (e *ending) rest() {
	if e.begun.Load() != 0 {
		e.begun.Store(0)
		e.let()
	}
}

// end ends whoever waits, for that cause. Only the first call counts, and reports true.
func (e *ending) end(cause error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause.Load() != nil {
		return false
	}
	e.cause.Store(&cause)
	close(e.done)
	for f := range e.after {
		go (*f)()
	}
	e.after = nil
	return true
}

// ended reports whether end was called.
func (e *ending) ended() bool { return e.cause.Load() != nil }

// AfterFunc has f called once it ended. Package context asks for it, and needs no
// goroutine then for a context derived from this one.
func (e *ending) AfterFunc(f func()) (stop func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause.Load() != nil {
		go f()
		return func() bool { return false }
	}
	if e.after == nil {
		e.after = make(map[*func()]struct{})
	}
	key := &f
	e.after[key] = struct{}{}
	return func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		_, waiting := e.after[key]
		delete(e.after, key)
		return waiting
	}
}

// Deadline is the caller's: a limiter refuses at once what would outlast it. A
// connection's deadline is not told, as it may be moved while a call waits.
func (e *ending) Deadline() (time.Time, bool) {
	if e.parent == nil {
		return time.Time{}, false
	}
	return e.parent.Deadline()
}

// Value is the caller's.
func (e *ending) Value(key any) any {
	if e.parent == nil {
		return nil
	}
	return e.parent.Value(key)
}
