// Package conc has the WaitGroup of github.com/sourcegraph/conc over a worker.Pool, so that its tests, and those of its
// packages that use it, can run with ours.
package conc

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/worker"
	"github.com/sourcegraph/conc/panics"
)

// NewWaitGroup returns a WaitGroup.
func NewWaitGroup() *WaitGroup { return new(WaitGroup) }

// WaitGroup runs functions. The first panic of one is that of Wait.
type WaitGroup struct {
	once     sync.Once
	pool     *worker.Pool
	panicked atomic.Pointer[panics.Recovered]
}

// Go runs f.
func (w *WaitGroup) Go(f func()) { submit(w.started(), f) }

// Wait waits for all functions, and panics if one did.
func (w *WaitGroup) Wait() {
	if r := w.WaitAndRecover(); r != nil {
		panic(r)
	}
}

// WaitAndRecover waits for all functions, and returns the first panic.
func (w *WaitGroup) WaitAndRecover() *panics.Recovered {
	if err := w.started().Wait(context.Background()); err != nil {
		panic(err)
	}
	return w.panicked.Load()
}

func (w *WaitGroup) started() *worker.Pool {
	w.once.Do(func() { w.pool = NewPool(core.Unlimited(), &w.panicked) })
	return w.pool
}

// NewPool returns a pool that keeps the first panic in panicked.
func NewPool(l core.Limiter, panicked *atomic.Pointer[panics.Recovered]) *worker.Pool {
	return core.Must(worker.New(worker.Options{Limiter: l, OnPanic: func(value any, stack []byte) {
		panicked.CompareAndSwap(nil, &panics.Recovered{Value: value, Stack: stack})
	}}))
}

func submit(p *worker.Pool, f func()) {
	err := p.Submit(context.Background(), func(context.Context) error {
		f()
		return nil
	})
	if err != nil {
		panic(err)
	}
}
