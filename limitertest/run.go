package limitertest

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/core"
)

// Run checks the limiters that c.New returns, each rule in a subtest. First the subtest
// "config" finds out what c leaves out; if that fails, no rule is checked. An invalid Config
// fails the test at once, with all its faults.
//
// If the limiter's waiters block on a mutex, instead of a channel or a sync.Cond, the bubble
// hangs, and Run with it.
func Run(t *testing.T, c Config) {
	t.Helper()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	var f *facts
	if !t.Run("config", func(t *testing.T) {
		var faults []error
		f, faults = c.find(t)
		report(t, faults)
	}) {
		return
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if why := r.skipped(f); why != "" {
				t.Skip(why)
			}
			report(t, r.faults(t, f))
		})
	}
}

func report(t *testing.T, faults []error) {
	t.Helper()
	for _, err := range faults {
		t.Error(err)
	}
}

// rule is one property that every limiter must have.
type rule struct {
	name       string
	needs      need
	interfaces Interfaces
	check      func(*subject)
}

// skipped returns why the rule is not checked, "" if it is.
func (r rule) skipped(f *facts) string {
	if slices.Contains(f.Skip, r.name) {
		return "Config.Skip"
	}
	if why := r.needs.unmet(f); why != "" {
		return why
	}
	return r.interfaces.missing(f)
}

// faults checks the rule, in a bubble if it can be, and returns how it is broken.
func (r rule) faults(t *testing.T, f *facts) []error {
	t.Helper()
	if f.RealTime {
		return examine(t.Context(), f, r.check)
	}
	if r.needs&roams != 0 {
		f = f.roaming()
	}
	return inBubble(t, func(ctx context.Context) []error { return examine(ctx, f, r.check) })
}

// inBubble returns what check returns in a bubble. A goroutine that stays blocked in it
// is a fault.
func inBubble(t *testing.T, check func(context.Context) []error) (faults []error) {
	t.Helper()
	defer func() {
		// synctest panics, on this goroutine, if a goroutine of the bubble can't end.
		if p := recover(); p != nil && len(faults) == 0 {
			faults = append(faults, fmt.Errorf("goroutines stay blocked, though contexts are cancelled and the limiter is closed if it can be: %v", p))
		}
	}()
	synctest.Test(t, func(t *testing.T) { faults = check(t.Context()) })
	return faults
}

// roaming returns the facts with a New whose first limiter is made here, outside the bubble.
func (f *facts) roaming() *facts {
	made, elsewhere := f.New(), *f
	elsewhere.New = func() (l core.Limiter) {
		if l, made = made, nil; l == nil {
			l = f.New()
		}
		return l
	}
	return &elsewhere
}

// patience is how long a rule may take by its clock, not counting time that it lets pass on
// purpose: long enough for any limiter that keeps the rule.
func (f *facts) patience() time.Duration {
	const refills = 1000
	if f.RealTime || f.Refill > math.MaxInt64/refills/2 {
		return time.Minute
	}
	return time.Minute + refills*f.Refill
}

// examine runs check on a subject, and ensures that it ends.
func examine(ctx context.Context, f *facts, check func(*subject)) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &subject{facts: f, ctx: ctx}
	done, patience := make(chan struct{}), f.patience() // check may find out more of f
	go func() {
		defer close(done)
		defer s.end()
		defer func() { s.panicked(recover()) }()
		s.renew()
		check(s)
	}()
	s.watch(done, patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// watch waits until done, or until a call takes longer than it ever should.
func (s *subject) watch(done <-chan struct{}, patience time.Duration) {
	for {
		passes := s.passes.Load()
		limit := time.NewTimer(patience)
		select {
		case <-done:
			limit.Stop()
			return
		case <-limit.C:
			if passes%2 == 0 && passes == s.passes.Load() {
				s.faultf("a call does not return")
				return
			}
		}
	}
}

// panicked turns a panic of the limiter into a fault; p is what recover returned.
func (s *subject) panicked(p any) {
	if p != nil {
		s.faultf("panic: %v\n%s", p, debug.Stack())
	}
}

// wait waits for d, by the bubble's clock.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
