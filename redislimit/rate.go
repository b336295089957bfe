package redislimit

import (
	"sync"

	"github.com/sluice-go/sluice/core"
)

// rate is the engine of a limiter whose permits come back with time.
type rate struct{ engine }

// TryReplenish does nothing, and returns false: permits come back by themselves.
func (*rate) TryReplenish() bool { return false }

// AutoReplenishing returns true: permits come back by themselves.
func (r *rate) AutoReplenishing() bool { return r.shared.Store != nil }

// terms returns those in force; none, if the limiter was not made by its constructor.
func (e *engine) terms() terms {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.t == nil {
		return terms{}
	}
	return *e.t
}

// inForce holds options.
type inForce[T any] struct {
	mu      sync.Mutex
	options T
}

func (f *inForce[T]) set(o T) {
	f.mu.Lock()
	f.options = o
	f.mu.Unlock()
}

func (f *inForce[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.options
}

// update is the Update of all limiters: it puts the terms in force that apply returns, if
// there is nothing wrong.
func update(e *engine, f *faults, s Shared, apply func() *terms) error {
	if e.shared.Store == nil {
		return core.ErrClosed
	}
	f.update(e.shared, s)
	if err := f.err(); err != nil {
		return err
	}
	if e.isClosed() {
		return core.ErrClosed
	}
	return e.update(apply())
}

func (e *engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}
