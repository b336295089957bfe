package redislimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// guard runs scripts on a store: each for a limited time, and after three failures in a row
// only one now and then, to see whether the store is back. It is safe for concurrent use.
type guard struct {
	store   Store
	prompt  bool // the store's Run always returns by its context's deadline
	onState func(up bool, err error)

	mu        sync.Mutex // a leaf
	failures  int        // in a row
	err       error      // of the latest
	trying    bool       // a script runs to see whether the store is back
	retryAt   time.Time  // not before, if there were failures
	backoff   time.Duration
	changes   []error       // for onState; nil: the store is back
	reporting chan struct{} // closed when the goroutine that calls onState has ended; nil: there is none
}

const (
	failuresUntilDown = 3
	firstBackoff      = 100 * time.Millisecond
	lastBackoff       = 5 * time.Second
)

func newGuard(s Shared) *guard {
	g := &guard{store: s.Store, onState: s.OnState}
	if p, ok := s.Store.(interface{ Prompt() bool }); ok {
		g.prompt = p.Prompt()
	}
	return g
}

// storeError says why the store did not decide.
type storeError struct{ why error }

func (e *storeError) Error() string        { return ErrStore.Error() + ": " + e.why.Error() }
func (e *storeError) Is(target error) bool { return target == ErrStore }

// Unwrap returns the store's own error. One that says that a time was over does not count: the
// caller's own deadline was another.
func (e *storeError) Unwrap() error {
	if errors.Is(e.why, context.DeadlineExceeded) || errors.Is(e.why, context.Canceled) {
		return nil
	}
	return e.why
}

// errPanicked is the failure of a store that panicked, for the callers of the others.
var errPanicked = errors.New("it panicked")

// script is a script with its keys and arguments.
type script struct {
	*Script

	keys []string
	args []int64
}

// try runs the script if the store is not known to be unreachable; see run.
func (g *guard) try(ctx context.Context, s script, read func([]int64) error) error {
	if err := g.enter(time.Now()); err != nil {
		return err
	}
	return g.run(ctx, s, read)
}

// run runs the script until ctx ends, and calls read with its reply. The error of either is a
// failure of the store.
func (g *guard) run(ctx context.Context, s script, read func([]int64) error) error {
	begin, err := time.Now(), errPanicked
	defer func() { g.leave(err) }()
	var got []int64
	if got, err = g.ask(ctx, s); err == nil {
		err = read(got)
	}
	if err != nil {
		if at, ok := ctx.Deadline(); ok && errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(at) {
			err = fmt.Errorf("no answer within %v: %w", at.Sub(begin).Round(100*time.Microsecond), err)
		}
		err = &storeError{err}
	}
	return err
}

// ask runs the script. If the store may outlast ctx, a goroutine is left alone with it.
func (g *guard) ask(ctx context.Context, s script) ([]int64, error) {
	if g.prompt {
		return g.store.Run(ctx, s.Script, s.keys, s.args...)
	}
	type result struct {
		got []int64
		err error
	}
	done := make(chan result, 1)
	s.args = slices.Clone(s.args) // the caller uses its own again
	go func() {
		got, err := g.store.Run(ctx, s.Script, s.keys, s.args...)
		done <- result{got, err}
	}()
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refuses returns why the store is not asked now; nil: it is.
func (g *guard) refuses(now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusesLocked(now)
}

func (g *guard) refusesLocked(now time.Time) error {
	if g.failures >= failuresUntilDown && (g.trying || now.Before(g.retryAt)) {
		return g.err
	}
	return nil
}

// enter is refuses, and lets nobody else in if the store may be back.
func (g *guard) enter(now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusesLocked(now); err != nil {
		return err
	}
	g.trying = g.failures >= failuresUntilDown
	return nil
}

// failed returns when to ask again after a failure; zero: the latest call did not fail.
func (g *guard) failed() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures == 0 {
		return time.Time{}
	}
	return g.retryAt
}

// leave notes how a call ended.
func (g *guard) leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wasDown := g.failures >= failuresUntilDown
	g.trying = false
	if err == nil {
		g.failures, g.err, g.backoff = 0, nil, 0
		if wasDown {
			g.reportLocked(nil)
		}
		return
	}
	g.failures++
	g.backoff = min(max(2*g.backoff, firstBackoff), lastBackoff)
	if g.failures == failuresUntilDown {
		g.backoff = firstBackoff
		g.reportLocked(err)
	}
	g.err, g.retryAt = err, time.Now().Add(g.backoff)
}

// reportLocked has onState called. It has a goroutine of its own, so that it may use the
// limiter, and wait.
func (g *guard) reportLocked(err error) {
	if g.onState == nil {
		return
	}
	g.changes = append(g.changes, err)
	if g.reporting == nil {
		g.reporting = make(chan struct{})
		go g.report(g.reporting)
	}
}

// report calls onState for each change, in order.
func (g *guard) report(done chan struct{}) {
	defer close(done)
	for {
		g.mu.Lock()
		if len(g.changes) == 0 {
			g.reporting = nil
			g.mu.Unlock()
			return
		}
		err := g.changes[0]
		g.changes = g.changes[1:]
		g.mu.Unlock()
		g.onState(err == nil, err)
	}
}

// reported returns what is closed once onState was called for all changes; nil: it was.
func (g *guard) reported() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reporting
}
